#include "checkpoint/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tetrad::checkpoint {

namespace fs = std::filesystem;

namespace {

// Pieces from this size on are handed to the disk at once, so that the final sync has little left to do.
constexpr std::size_t kWriteBehind = 4 << 20;

Error write_error(std::string_view what, const std::string& path, int code) {
  return refuse("TE0242", std::string(what), path, {}, std::generic_category().message(code));
}

Error exists_error(const std::string& path) {
  Error error = refuse("TE0241", "the output exists already", path, "a path where nothing is", "a file or folder");
  error.hint = "remove it or name another path";
  return error;
}

Status sync_folder(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) return write_error("cannot sync the folder", path, errno);
  return ok();
}

// Removes folders that writers killed earlier left behind; a living writer holds the lock of its own.
void sweep(const fs::path& parent, const std::string& prefix) {
  std::error_code code;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(parent, code), end; !code && it != end; it.increment(code)) {
    if (it->path().filename().string().starts_with(prefix) &&
        it->symlink_status(code).type() == fs::file_type::directory) {
      stale.push_back(it->path());
    }
  }
  for (const fs::path& path : stale) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, code);
  }
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path, std::uint64_t size) {
  OutputFile file;
  file.path_ = path;
  file.fd_ = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.fd_.get() < 0) return write_error("cannot create the file", path, errno);
  if (size > 0 && ::fallocate(file.fd_.get(), 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP) {
    return write_error(fmt::format("cannot reserve {} B for the file", size), path, errno);
  }
  return file;
}

Status OutputFile::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_error("cannot write the file", path_, errno);
    done += static_cast<std::size_t>(n);
  }
  if (bytes.size() >= kWriteBehind) {
    // Only a hint: the sync at the end reports what goes wrong.
    (void)::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes.size()),
                            SYNC_FILE_RANGE_WRITE);
  }
  return ok();
}

Status OutputFile::finish() {
  if (::fsync(fd_.get()) != 0) return write_error("cannot sync the file", path_, errno);
  fd_ = Fd();
  return ok();
}

Status write_whole_file(const std::string& path, std::string_view text) {
  Result<OutputFile> file = OutputFile::create(path, 0);
  if (!file) return file.error();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  if (Status written = file->write(0, {bytes, text.size()}); !written) return written;
  return file->finish();
}

Result<OutputFolder> OutputFolder::create(const std::string& final_path) {
  fs::path target = fs::path(final_path).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();  // a slash at the end
  if (target.filename().empty() || target.filename() == "." || target.filename() == "..") {
    return exists_error(final_path);
  }
  std::error_code code;
  if (fs::symlink_status(target, code).type() != fs::file_type::not_found) return exists_error(final_path);
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, code)) {
    return refuse("TE0242", "the output's folder does not exist", parent.string(), "an existing folder", "none");
  }
  const std::string prefix = fmt::format(".{}.tetrad-", target.filename().string());
  sweep(parent, prefix);
  std::string name = (parent / (prefix + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) return write_error("cannot create a folder", parent.string(), errno);
  OutputFolder folder;
  folder.final_path_ = target.string();
  folder.path_ = name;
  folder.lock_ = Fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.lock_.get() < 0 || ::flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return write_error("cannot lock the folder", name, errno);
  }
  // mkdtemp makes a private folder; the result gets the rights that mkdir would give.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(folder.lock_.get(), 0777 & ~mask) != 0) return write_error("cannot set the rights of", name, errno);
  return folder;
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : final_path_(std::move(other.final_path_)), path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

OutputFolder::~OutputFolder() {
  std::error_code code;
  if (!path_.empty()) fs::remove_all(path_, code);
}

Status OutputFolder::commit() {
  std::error_code code;
  for (fs::recursive_directory_iterator it(path_, code), end; !code && it != end; it.increment(code)) {
    if (!it->is_directory(code)) continue;
    if (Status synced = sync_folder(it->path().string()); !synced) return synced;
  }
  if (code) return write_error("cannot list the folder", path_, code.value());
  if (Status synced = sync_folder(path_); !synced) return synced;
  int failed = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_NOREPLACE);
  // File systems without that flag: a plain rename refuses to replace any folder that holds something.
  if (failed != 0 && errno == EINVAL) failed = ::rename(path_.c_str(), final_path_.c_str());
  if (failed != 0 && (errno == EEXIST || errno == ENOTEMPTY)) return exists_error(final_path_);
  if (failed != 0) return write_error("cannot rename the folder to its final name", final_path_, errno);
  path_.clear();
  const std::string parent = fs::path(final_path_).parent_path().string();
  return sync_folder(parent.empty() ? "." : parent);
}

}  // namespace tetrad::checkpoint
