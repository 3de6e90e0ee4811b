// SHA-256 of each row's machine code, computed when the row was compiled (internal).
#pragma once

#include <string_view>

namespace tetrad::kernels {

// Empty if the row has no code in this build.
std::string_view digest_of(std::string_view row);

}  // namespace tetrad::kernels
