// The topic smem-sm120 of `tetrad explain`.
#pragma once

#include "cli.hpp"

namespace tetrad::cli {

constexpr std::string_view kTopicSmemSm120 = "smem-sm120";

// Do CUTLASS's NVFP4 kernels fail on sm_121 because it has less shared memory than sm_120? Answered from the device
// files and the account of tiles. Exit code.
int explain_smem_sm120(const Context& context);

}  // namespace tetrad::cli
