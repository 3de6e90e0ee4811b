// NVIDIA's nvdisasm as a child: a second opinion on the counts that the library makes by itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tetrad/cubin.hpp"
#include "tetrad/error.hpp"

namespace tetrad::cli {

struct DisasmLimits {
  std::chrono::milliseconds time{60'000};
  std::uint64_t output = 1ULL << 30;  // bytes
};

// The first of: NVDISASM, CUDA_HOME/bin, PATH, /usr/local/cuda/bin, nvidia/*/bin of the site-packages of VIRTUAL_ENV
// and of each python3 on PATH. Error (unavailable): TE0841, with what to install.
Result<std::string> find_nvdisasm();

// Instructions per function as nvdisasm prints them. The child runs without standard input in a process group of its
// own and is killed at a limit. Errors: TE0842 it could not be started, failed, or printed what is no listing; TE0843 a
// limit was reached.
Result<std::map<std::string, SassCounts>> disassemble(const std::string& nvdisasm, std::span<const std::byte> cubin,
                                                      const DisasmLimits& limits = {});

// One line per difference between a report and nvdisasm's listing of the same cubin; none if they agree.
std::vector<std::string> differences(const CubinReport& report, const std::map<std::string, SassCounts>& listed);

}  // namespace tetrad::cli
