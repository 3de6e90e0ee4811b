// Files as the checkpoint reader and writer use them (internal): opened once, mapped, read whole or in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tetrad/error.hpp"

namespace tetrad::checkpoint {

// An Error of class `input`; the shape of every refusal in this module.
Error refuse(std::string_view id, std::string what, std::string where, std::string need = {}, std::string have = {});
// TE0201 with the text of errno.
Error system_error(std::string_view what, const std::string& path, int code);

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept;
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

namespace detail {
struct Unmap {
  std::uint64_t size = 0;
  void operator()(const std::uint8_t* data) const;
};
}  // namespace detail

// A regular file opened for reading, with the size it had then.
class InputFile {
 public:
  // Error: TE0201 (not there, not readable, not a regular file).
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&&) noexcept = default;
  InputFile& operator=(InputFile&&) noexcept = default;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  int fd() const { return fd_.get(); }
  // Fills `into` from `offset`. Errors: TE0201 (the system says no), TE0225 (the file ends before).
  Status read(std::uint64_t offset, std::span<std::uint8_t> into) const;
  // Error: TE0225 where the size is not what it was.
  Status intact() const;
  // Maps the whole file once; nullptr for an empty file. Error: TE0201.
  Result<const std::uint8_t*> map();

 private:
  InputFile() = default;
  std::string path_;
  Fd fd_;
  std::uint64_t size_ = 0;
  std::unique_ptr<const std::uint8_t, detail::Unmap> mapping_;
};

// The whole of a small file. Errors: TE0201, TE0227 (larger than `cap`).
Result<std::string> read_small_file(const std::string& path, std::uint64_t cap);

// The real path of `file` (below `root`), whose links stay inside root, or inside the blobs folder of the hub cache
// (<repo>/snapshots/<revision>/name -> <repo>/blobs/...). Errors: TE0221, TE0222 (not there).
Result<std::string> real_inside(const std::string& root, const std::string& file);

// real_inside of `name` in `folder`, which must be a plain file name. Errors: as there.
Result<std::string> resolve_inside(const std::string& folder, const std::string& name);

}  // namespace tetrad::checkpoint
