// Bytes of files that nobody vouches for: every read is checked against what is there (internal).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tetrad/error.hpp"

namespace tetrad::binary {

using Bytes = std::span<const std::byte>;

// `size` bytes from `offset`; nothing where they are not all there.
inline std::optional<Bytes> slice(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// A little-endian integer at `offset`; nothing where it is not all there. Aligned or not.
template <class T>
std::optional<T> load(Bytes bytes, std::uint64_t offset) {
  static_assert(std::is_integral_v<T>);
  const std::optional<Bytes> from = slice(bytes, offset, sizeof(T));
  if (!from) return std::nullopt;
  T value = 0;
  std::memcpy(&value, from->data(), sizeof(T));
  return value;
}

// The text at `offset` up to its NUL; nothing where there is none within `bytes`.
std::optional<std::string_view> c_string(Bytes bytes, std::uint64_t offset);

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline Bytes as_bytes(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }

// An Error of class `input`; the shape of every refusal in this module.
Error refuse(std::string_view id, std::string what, std::string where, std::string need = {}, std::string have = {});

}  // namespace tetrad::binary
