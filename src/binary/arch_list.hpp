// Words of architecture lists (internal).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tetrad/arch_list.hpp"

namespace tetrad::binary {

// One request for an image: what is assembled, from which PTX, and the words that asked for it.
struct ImageRequest {
  Target target;
  Target source;
  std::string from;
};

struct ListReading {
  std::vector<ImageRequest> images;
  std::vector<std::string> notes;
};

// One reader per syntax; `here` as read_arch_list. Errors as read_arch_list.
Result<ListReading> read_torch(std::string_view text);
Result<ListReading> read_cmake(std::string_view text, const Toolkit& toolkit, std::optional<ComputeCapability> here);
Result<ListReading> read_nvcc(std::string_view text, const Toolkit& toolkit, std::optional<ComputeCapability> here);

// "all", "all-major" and "native" as nvcc expands them. False: not one of these words.
Result<bool> expand_word(std::string_view word, const Toolkit& toolkit, std::optional<ComputeCapability> here,
                         ListReading& out);
std::vector<std::string> split(std::string_view text, std::string_view separators);
Target ptx_of(const Target& target);  // the PTX target of the same name
Error unknown_item(std::string_view item, std::string need, std::string hint = {});

}  // namespace tetrad::binary
