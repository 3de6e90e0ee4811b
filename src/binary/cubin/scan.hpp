// Counts classes of instructions in machine code of sm_70 and newer (internal).
#pragma once

#include "binary/bytes.hpp"
#include "tetrad/cubin.hpp"

namespace tetrad::binary {

struct CodeScan {
  SassCounts counts;
  bool software_fp4_pack = false;
  bool software_fp4_unpack = false;
};

// Every 16 bytes of `code` are one instruction; a rest is not counted. Reads each byte once. The patterns are those of
// opcodes.def, which scripts/oracles/derive_opcodes.py learns from nvdisasm.
CodeScan scan_code(Bytes code);

}  // namespace tetrad::binary
