// Names of kernels for people (internal).
#pragma once

#include <string>
#include <string_view>

namespace tetrad::binary {

// What a mangled name (Itanium C++ ABI) is an instance of: its qualified name without arguments and, where the first
// template argument is a class, that class: "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal>". Names of
// other forms stay as they are. Linear time; at most a few times the length of the name.
std::string template_name(std::string_view mangled);

// Demangled in full where the name is short and repeats little, so that a hostile one cannot unfold; else its
// template_name with "<...>".
std::string readable_name(const std::string& mangled);

}  // namespace tetrad::binary
