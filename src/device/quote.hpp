// Foreign text in a message (internal).
#pragma once

#include <string>
#include <string_view>

namespace tetrad::device {

// In quotes, at most 60 bytes, everything but printable ASCII as '?'.
inline std::string quote(std::string_view text) {
  constexpr std::size_t kClip = 60;
  std::string out = "'";
  for (const char c : text.substr(0, kClip)) out += c >= 0x20 && c < 0x7F ? c : '?';
  return out + (text.size() > kClip ? "...'" : "'");
}

}  // namespace tetrad::device
