#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "binary/scan.hpp"
#include "binary/zip.hpp"
#include "tetrad/binary.hpp"
#include "tetrad/parallel.hpp"

namespace tetrad {
namespace binary {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kInWork = 256ULL << 20;
constexpr std::size_t kHead = 4096;

Error cannot_read(const std::string& path, int code) {
  return refuse("TE0810", "cannot read the file", path, "a readable file or folder",
                std::generic_category().message(code));
}

class File {
 public:
  static Result<File> open(const std::string& path) {
    File file;
    file.path_ = path;
    // O_NONBLOCK: a named pipe must not hold the program up before it is seen to be none of ours.
    file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.fd_ < 0) return cannot_read(path, errno);
    struct stat info {};
    if (::fstat(file.fd_, &info) != 0) return cannot_read(path, errno);
    if (!S_ISREG(info.st_mode)) {
      return refuse("TE0810", "cannot read this kind of file", path, "a regular file or a folder");
    }
    file.size_ = static_cast<std::uint64_t>(info.st_size);
    return file;
  }
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  std::uint64_t size() const { return size_; }

  // Up to into.size() bytes from `offset`; fewer only at the end.
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) const {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t n = ::pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return cannot_read(path_, errno);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

  Result<std::vector<std::byte>> piece(std::uint64_t offset, std::uint64_t size) const {
    const std::uint64_t from = std::min(offset, size_);
    std::vector<std::byte> out(static_cast<std::size_t>(std::min(size, size_ - from)));
    const Result<std::size_t> got = read(from, out);
    if (!got) return got.error();
    out.resize(*got);
    return out;
  }

 private:
  File() = default;
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

struct Found {
  std::string path;
  std::uint64_t size = 0;
};

class Reading {
 public:
  explicit Reading(const BinaryOptions& options)
      : options_(options), pool_(options.threads > 0 ? options.threads : hardware_threads(), kInWork) {}

  Result<BinaryReport> run(const std::string& path) {
    std::error_code code;
    const fs::file_status status = fs::status(path, code);
    if (!fs::exists(status)) {
      return cannot_read(path, code ? code.value() : ENOENT);
    }
    std::vector<Found> files;
    const bool folder = fs::is_directory(status);
    if (folder) {
      files = walk(path);
    } else {
      files.push_back({path, 0});
    }
    for (const Found& file : files) total_ += file.size;
    for (const Found& file : files) {
      const Status read = one_file(file.path, !folder);
      if (read) continue;
      if (!folder) {
        pool_.finish();
        if (report_.files.empty()) return read.error();
      }
      report_.problems.push_back(read.error());
    }
    pool_.finish();
    std::sort(report_.files.begin(), report_.files.end(),
              [](const BinaryFile& a, const BinaryFile& b) { return a.path < b.path; });
    return std::move(report_);
  }

 private:
  std::vector<Found> walk(const std::string& root) {
    std::vector<Found> files;
    std::error_code code;
    fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, code);
    while (!code && at != fs::recursive_directory_iterator()) {
      std::error_code ignored;
      if (!at->is_symlink(ignored) && at->is_regular_file(ignored)) {
        const std::uintmax_t size = at->file_size(ignored);
        files.push_back({at->path().string(), ignored ? 0 : static_cast<std::uint64_t>(size)});
      }
      at.increment(code);
    }
    if (code) report_.problems.push_back(cannot_read(root, code.value()));
    std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.path < b.path; });
    return files;
  }

  std::shared_ptr<FileJob> new_job(const std::string& path, bool keep_empty) {
    auto job = std::make_shared<FileJob>(path, options_.kernels, [this, keep_empty](BinaryFile&& file) {
      if (file.images.empty() && file.problems.empty() && !keep_empty) return;
      const std::lock_guard lock(mutex_);
      report_.files.push_back(std::move(file));
    });
    job->set_observer(options_.cubin);
    return job;
  }

  void advance(std::uint64_t bytes, std::string_view item) {
    report_.bytes_seen += bytes;
    if (options_.progress) options_.progress(report_.bytes_seen, total_, item);
  }

  Status one_file(const std::string& path, bool asked_for) {
    ++report_.files_seen;
    const Result<File> file = File::open(path);
    if (!file) return file.error();
    const Result<std::vector<std::byte>> head = file->piece(0, kHead);
    if (!head) return head.error();
    const Content content = content_of(*head);
    if (content == Content::zip) return one_zip(path);
    if (content == Content::none) {
      advance(file->size(), path);
      if (!asked_for) return ok();
      return refuse("TE0811", "not a file that holds compiled code", path,
                    "a library, object, archive, cubin, fat binary, PTX file or wheel",
                    file->size() == 0 ? "an empty file" : fmt::format("{} B of another kind", file->size()));
    }
    const auto job = new_job(path, asked_for);
    job->add_bytes(file->size());
    const Result<std::vector<Place>> places =
        content == Content::host
            ? section_places([&](std::uint64_t offset, std::uint64_t size) { return file->piece(offset, size); },
                             file->size(), path)
            : std::vector<Place>{};
    if (!places) job->add_problem(places.error());
    std::uint64_t offset = 0;
    Window window([&](std::span<std::byte> into) -> Result<std::size_t> {
      const Result<std::size_t> got = file->read(offset, into);
      if (!got) return got.error();
      offset += *got;
      advance(*got, path);
      return *got;
    });
    const Status status = scan(job, pool_, window, places ? *places : std::vector<Place>{}, "");
    if (!status) job->add_problem(status.error());
    return ok();
  }

  Status one_zip(const std::string& path) {
    return read_zip(path, [&](const std::string& name, Window& data, std::uint64_t size) -> Status {
      ++report_.files_seen;
      const std::string inside = path + "/" + name;
      const auto job = new_job(inside, false);
      const Result<Bytes> head = data.peek(kHead);
      if (!head) {
        job->add_problem(head.error());
        return ok();
      }
      const Content content = content_of(*head);
      if (content == Content::none || content == Content::zip) return ok();
      job->add_bytes(size);
      if (options_.progress) options_.progress(report_.bytes_seen, 0, inside);
      const Status status = scan(job, pool_, data, {}, "");
      report_.bytes_seen += data.position();
      if (!status) job->add_problem(status.error());
      return ok();
    });
  }

  const BinaryOptions& options_;
  std::mutex mutex_;
  BinaryReport report_;
  std::uint64_t total_ = 0;
  Pool pool_;
};

}  // namespace
}  // namespace binary

std::string_view name(ImageKind kind) {
  switch (kind) {
    case ImageKind::cubin:
      return "cubin";
    case ImageKind::ptx:
      return "ptx";
    case ImageKind::lto_ir:
      return "lto_ir";
    case ImageKind::other:
      break;
  }
  return "other";
}

std::string_view name(ImagePacking packing) {
  switch (packing) {
    case ImagePacking::lz4:
      return "lz4";
    case ImagePacking::zstd:
      return "zstd";
    case ImagePacking::none:
      break;
  }
  return "none";
}

Result<BinaryReport> read_binary(const std::string& path, const BinaryOptions& options) {
  return binary::Reading(options).run(path);
}

}  // namespace tetrad
