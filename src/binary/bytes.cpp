#include "binary/bytes.hpp"

#include <utility>

namespace tetrad::binary {

std::optional<std::string_view> c_string(Bytes bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return std::nullopt;
  const std::string_view rest = as_text(bytes.subspan(static_cast<std::size_t>(offset)));
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

Error refuse(std::string_view id, std::string what, std::string where, std::string need, std::string have) {
  return {
      ErrorKind::input, std::string(id), std::move(what), std::move(where), std::move(need), std::move(have), {}, {}};
}

}  // namespace tetrad::binary
