#include "checkpoint/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace tetrad::checkpoint {

namespace fs = std::filesystem;

Error refuse(std::string_view id, std::string what, std::string where, std::string need, std::string have) {
  return Error{.kind = ErrorKind::input,
               .id = std::string(id),
               .what = std::move(what),
               .where = std::move(where),
               .need = std::move(need),
               .have = std::move(have),
               .causes = {},
               .hint = {}};
}

Error system_error(std::string_view what, const std::string& path, int code) {
  return refuse("TE0201", std::string(what), path, {}, std::generic_category().message(code));
}

Fd::Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile file;
  file.path_ = path;
  // O_NONBLOCK: a named pipe must not hold the program up before it is seen to be none of ours.
  file.fd_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd_.get() < 0) return system_error("cannot open the file", path, errno);
  struct stat info {};
  if (::fstat(file.fd_.get(), &info) != 0) return system_error("cannot read the file's size", path, errno);
  if (!S_ISREG(info.st_mode)) return refuse("TE0201", "cannot read this kind of file", path, "a regular file");
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status InputFile::read(std::uint64_t offset, std::span<std::uint8_t> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::pread(fd_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot read the file", path_, errno);
    if (n == 0) {
      return refuse("TE0225", "the file became shorter while it was read",
                    fmt::format("{}: byte {}", path_, offset + done), fmt::format("{} B", offset + into.size()),
                    fmt::format("{} B", offset + done));
    }
    done += static_cast<std::size_t>(n);
  }
  return ok();
}

Status InputFile::intact() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return system_error("cannot read the file's size", path_, errno);
  if (static_cast<std::uint64_t>(info.st_size) != size_) {
    return refuse("TE0225", "the file changed its size since it was opened", path_, fmt::format("{} B", size_),
                  fmt::format("{} B", info.st_size));
  }
  return ok();
}

void detail::Unmap::operator()(const std::uint8_t* data) const {
  ::munmap(const_cast<std::uint8_t*>(data), static_cast<std::size_t>(size));
}

Result<const std::uint8_t*> InputFile::map() {
  if (size_ == 0 || mapping_ != nullptr) return mapping_.get();
  void* data = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (data == MAP_FAILED) return system_error("cannot map the file", path_, errno);
  mapping_ = {static_cast<const std::uint8_t*>(data), detail::Unmap{size_}};
  return mapping_.get();
}

Result<std::string> read_small_file(const std::string& path, std::uint64_t cap) {
  Result<InputFile> file = InputFile::open(path);
  if (!file) return file.error();
  if (file->size() > cap) {
    return refuse("TE0227", "the file is too large for what it should be", path, fmt::format("at most {} B", cap),
                  fmt::format("{} B", file->size()));
  }
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  if (Status read = file->read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}); !read) {
    return read.error();
  }
  return text;
}

namespace {

bool is_inside(const fs::path& path, const fs::path& folder) {
  auto at = path.begin();
  for (const fs::path& part : folder) {
    if (at == path.end() || *at != part) return false;
    ++at;
  }
  return at != path.end();
}

}  // namespace

Result<std::string> real_inside(const std::string& folder, const std::string& file) {
  std::error_code code;
  const fs::path root = fs::canonical(folder, code);
  if (code) return system_error("cannot open the folder", folder, code.value());
  const fs::path real = fs::canonical(file, code);
  if (code) {
    return refuse("TE0222", "a file of the checkpoint is missing", file, fs::path(file).filename().string(),
                  code.message());
  }
  const bool hub =
      root.parent_path().filename() == "snapshots" && is_inside(real, root.parent_path().parent_path() / "blobs");
  if (!is_inside(real, root) && !hub) {
    return refuse("TE0221", "a link leads out of the checkpoint's folder", file, "a file inside " + root.string(),
                  real.string());
  }
  return real.string();
}

Result<std::string> resolve_inside(const std::string& folder, const std::string& name) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                     name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
  if (!plain) {
    return refuse("TE0221", "a shard's name leads out of the checkpoint's folder", folder, "a plain file name",
                  fmt::format("'{}'", name));
  }
  return real_inside(folder, (fs::path(folder) / name).string());
}

}  // namespace tetrad::checkpoint
