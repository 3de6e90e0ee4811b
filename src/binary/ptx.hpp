// The head of a PTX text (internal).
#pragma once

#include <optional>
#include <string>

#include "binary/bytes.hpp"
#include "tetrad/target.hpp"

namespace tetrad::binary {

struct PtxFacts {
  std::string version;           // "9.0"
  std::optional<Target> target;  // compute_120a of ".target sm_120a"
  std::uint64_t kernels = 0;     // .entry directives
  bool fp4 = false;              // FP4 tensor instructions: kind::mxf4, kind::mxf4nvf4
};

// True where `bytes` begin like PTX: comments, then .version.
bool looks_like_ptx(Bytes bytes);
// Linear in the text; what is not there stays empty.
PtxFacts read_ptx(Bytes bytes);

}  // namespace tetrad::binary
