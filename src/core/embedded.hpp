// Data files compiled into the library (internal); cmake/embed.cmake defines the functions.
#pragma once

#include <span>
#include <string_view>

namespace tetrad::core {

struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
};

}  // namespace tetrad::core
