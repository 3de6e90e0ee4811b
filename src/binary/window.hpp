// A forward-only view of a file that is read in pieces (internal): memory follows what is asked for and there, never
// what a header claims.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "binary/bytes.hpp"

namespace tetrad::binary {

// Fills part of `into` and returns how many bytes; 0 at the end.
using ReadSome = std::function<Result<std::size_t>(std::span<std::byte> into)>;

class Window {
 public:
  explicit Window(ReadSome read) : read_(std::move(read)) {}
  // Over bytes in memory, which must outlive the window.
  explicit Window(Bytes bytes);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Bytes passed so far.
  std::uint64_t position() const { return position_; }
  // The next `size` bytes, fewer only at the end; valid until the next call. Errors: those of the reader.
  Result<Bytes> peek(std::size_t size);
  // Passes `size` bytes, or all that are left. Errors: those of the reader.
  Status skip(std::uint64_t size);

 private:
  ReadSome read_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::uint64_t position_ = 0;
  bool ended_ = false;
};

}  // namespace tetrad::binary
