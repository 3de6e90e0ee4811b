#include "binary/zip.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace tetrad::binary {
namespace {

constexpr std::uint64_t kMaxRatio = 200;
constexpr std::uint64_t kFreeSize = 1ULL << 30;
constexpr std::uint64_t kMaxTotal = 64ULL << 30;
constexpr std::uint64_t kMaxEntries = 1 << 20;

struct CloseZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

struct Entry {
  zip_uint64_t index = 0;
  std::string name;
  std::uint64_t size = 0;
};

// A name that stays inside the folder it is unpacked to, on any system.
bool stays_inside(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos || (name.size() > 1 && name[1] == ':')) {
    return false;
  }
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return false;
    at = end + 1;
  }
  return true;
}

bool is_link(zip_t* zip, zip_uint64_t index) {
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  if (zip_file_get_external_attributes(zip, index, 0, &system, &attributes) != 0) return false;
  return system == ZIP_OPSYS_UNIX && ((attributes >> 16) & 0170000U) == 0120000U;
}

}  // namespace

bool looks_like_zip(Bytes bytes) {
  return as_text(bytes).starts_with("PK\x03\x04") || as_text(bytes).starts_with("PK\x05\x06");
}

Status read_zip(const std::string& path,
                const std::function<Status(const std::string& name, Window& data, std::uint64_t size)>& visit) {
  int code = 0;
  const std::unique_ptr<zip_t, CloseZip> zip(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    return refuse(code == ZIP_ER_OPEN || code == ZIP_ER_NOENT ? "TE0810" : "TE0813", "cannot read the zip file", path,
                  "a whole zip file", text);
  }
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  if (count < 0 || static_cast<std::uint64_t>(count) > kMaxEntries) {
    return refuse("TE0813", "a zip file with too many entries", path, fmt::format("at most {}", kMaxEntries),
                  fmt::format("{}", count));
  }
  std::vector<Entry> entries;
  std::uint64_t packed = 0;
  std::uint64_t total = 0;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    const auto index = static_cast<zip_uint64_t>(i);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(zip.get(), index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
      return refuse("TE0813", "a zip file's directory is damaged", fmt::format("{}: entry {}", path, i));
    }
    const std::string name = stat.name;
    if (!stays_inside(name)) {
      return refuse("TE0814", "a name inside a zip file leads out of it", path, "a relative path without ..",
                    fmt::format("'{}'", name.substr(0, 200)));
    }
    packed += std::min(stat.comp_size, kMaxTotal);
    total += std::min(stat.size, kMaxTotal + 1);
    if (name.ends_with('/') || is_link(zip.get(), index)) continue;
    entries.push_back({index, name, stat.size});
  }
  std::uint64_t file_size = 0;
  if (std::FILE* file = std::fopen(path.c_str(), "rbe"); file != nullptr) {
    if (fseeko(file, 0, SEEK_END) == 0) file_size = static_cast<std::uint64_t>(std::max<off_t>(ftello(file), 0));
    std::fclose(file);
  }
  if (packed > file_size) {
    return refuse("TE0815", "the files inside a zip file overlap", path, fmt::format("at most {} B packed", file_size),
                  fmt::format("{} B", packed));
  }
  const std::uint64_t most = std::min(kMaxTotal, std::max(kFreeSize, kMaxRatio * file_size));
  if (total > most) {
    return refuse("TE0815", "a zip file unpacks to too much", path, fmt::format("at most {} B", most),
                  fmt::format("{} B from {} B", total, file_size));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (const Entry& entry : entries) {
    std::unique_ptr<zip_file_t, CloseFile> file;
    std::uint64_t left = entry.size;
    const auto damaged = [&](std::string have) {
      return refuse("TE0813", "a file inside a zip file cannot be unpacked", path + "/" + entry.name,
                    fmt::format("{} B", entry.size), std::move(have));
    };
    Window data([&](std::span<std::byte> into) -> Result<std::size_t> {
      if (file == nullptr) {
        file.reset(zip_fopen_index(zip.get(), entry.index, 0));
        if (file == nullptr) return damaged(zip_strerror(zip.get()));
      }
      // One byte more than announced shows a size that lies; the checksum is compared at the end.
      const zip_int64_t got = zip_fread(file.get(), into.data(), into.size());
      if (got < 0) return damaged(zip_file_strerror(file.get()));
      if (static_cast<std::uint64_t>(got) > left) return damaged("more bytes than the directory says");
      left -= static_cast<std::uint64_t>(got);
      if (got == 0 && left > 0) return damaged(fmt::format("{} B", entry.size - left));
      return static_cast<std::size_t>(got);
    });
    if (Status visited = visit(entry.name, data, entry.size); !visited) return visited;
  }
  return ok();
}

}  // namespace tetrad::binary
