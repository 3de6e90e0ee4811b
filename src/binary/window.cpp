#include "binary/window.hpp"

#include <algorithm>
#include <cstring>

namespace tetrad::binary {
namespace {

constexpr std::size_t kPiece = 1 << 20;

}  // namespace

Window::Window(Bytes bytes)
    : read_([bytes](std::span<std::byte> into) mutable -> Result<std::size_t> {
        const std::size_t size = std::min(into.size(), bytes.size());
        if (size > 0) std::memcpy(into.data(), bytes.data(), size);
        bytes = bytes.subspan(size);
        return size;
      }) {}

Result<Bytes> Window::peek(std::size_t size) {
  while (buffer_.size() - begin_ < size && !ended_) {
    if (begin_ > 0) {
      buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
      begin_ = 0;
      if (buffer_.capacity() > 32 * kPiece && size < 4 * kPiece) buffer_.shrink_to_fit();
    }
    const std::size_t have = buffer_.size();
    buffer_.resize(have + kPiece);
    const Result<std::size_t> got = read_({buffer_.data() + have, kPiece});
    buffer_.resize(have + (got ? std::min(*got, kPiece) : 0));
    if (!got) return got.error();
    if (*got == 0) ended_ = true;
  }
  return Bytes(buffer_).subspan(begin_, std::min(size, buffer_.size() - begin_));
}

Status Window::skip(std::uint64_t size) {
  while (size > 0) {
    const Result<Bytes> next = peek(static_cast<std::size_t>(std::min<std::uint64_t>(size, kPiece)));
    if (!next) return next.error();
    if (next->empty()) break;
    begin_ += next->size();
    position_ += next->size();
    size -= next->size();
  }
  return ok();
}

}  // namespace tetrad::binary
