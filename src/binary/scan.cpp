#include "binary/scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "binary/archive.hpp"
#include "binary/elf.hpp"
#include "binary/ptx.hpp"
#include "binary/zip.hpp"

namespace tetrad::binary {
namespace {

constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kHead = 4096;
constexpr std::string_view kElfMagic{"\x7f\x45\x4c\x46\x02\x01", 6};
constexpr std::size_t kElfKnown = 20;  // bytes that show a cubin
constexpr std::uint64_t kSectionHeader = 64;
constexpr std::uint64_t kMaxSections = 1 << 20;
constexpr std::uint64_t kMaxNames = 64 << 20;

std::string section_at(const std::vector<Place>& places, std::uint64_t offset) {
  for (const Place& place : places) {
    if (offset >= place.offset && offset - place.offset < place.size) return place.name;
  }
  return {};
}

// A candidate for code in bytes of any kind, from `from` on: a fat binary's or a cubin's first bytes.
std::size_t next_candidate(Bytes bytes, std::size_t from) {
  const auto find = [&](std::string_view magic) {
    const void* found = ::memmem(bytes.data() + from, bytes.size() - from, magic.data(), magic.size());
    return found == nullptr ? bytes.size()
                            : static_cast<std::size_t>(static_cast<const std::byte*>(found) - bytes.data());
  };
  return std::min(find(kFatbinMagic), find(kElfMagic));
}

// Looks for fat binaries and cubins in any bytes: sections of ELF and PE files and what lies loose between them.
class Carver {
 public:
  Carver(const std::shared_ptr<FileJob>& job, Pool& pool, Window& window, const std::vector<Place>& places,
         const std::string& label)
      : job_(job), pool_(pool), window_(window), places_(places), label_(label) {}

  Status run() {
    for (;;) {
      const Result<Bytes> view = window_.peek(kPiece);
      if (!view) return view.error();
      if (view->size() < kElfKnown) return ok();
      const std::size_t at = next_candidate(*view, 0);
      if (at == view->size()) {
        const bool last = view->size() < kPiece;
        if (Status passed = window_.skip(view->size() - (last ? 0 : kElfKnown)); !passed) return passed;
        if (last) return ok();
        continue;
      }
      if (Status passed = window_.skip(at); !passed) return passed;
      if (Status read = candidate(); !read) return read;
    }
  }

 private:
  std::string where() const { return label_.empty() ? job_->path() : job_->path() + "/" + label_; }
  std::string section(std::uint64_t offset) const { return label_.empty() ? section_at(places_, offset) : label_; }

  Status candidate() {
    const Result<Bytes> head = window_.peek(kElfHeaderSize);
    if (!head) return head.error();
    if (looks_like_fatbin(*head)) return fatbin();
    if (looks_like_cubin(*head)) return cubin();
    return window_.skip(1);
  }

  Status fatbin() {
    const std::uint64_t start = window_.position();
    const std::uint32_t module = job_->new_module();
    const Status read = read_fatbin(window_, where(), [&](const FatbinEntry& entry, Bytes payload) {
      FileJob::add_image(job_, pool_, entry, payload, module, section(entry.offset));
    });
    if (!read) {
      const std::string& id = read.error().id;
      if (id != "TE0806" && id != "TE0807" && id != "TE0808") return read;
      job_->add_problem(read.error());
    }
    if (window_.position() == start) return window_.skip(1);
    return ok();
  }

  Status cubin() {
    std::uint64_t need = kElfHeaderSize;
    Bytes bytes;
    for (int tries = 0; tries < 3; ++tries) {
      const Result<Bytes> more = window_.peek(static_cast<std::size_t>(need));
      if (!more) return more.error();
      bytes = *more;
      const std::optional<std::uint64_t> extent = elf_extent(bytes);
      if (!extent || *extent > kMaxStored) return window_.skip(1);
      if (*extent == need) break;
      need = *extent;
    }
    FatbinEntry entry;
    entry.kind = 2;
    entry.offset = window_.position();
    entry.stored = bytes.size();
    FileJob::add_image(job_, pool_, entry, bytes, job_->new_module(), section(entry.offset));
    return window_.skip(std::max<std::uint64_t>(bytes.size(), 1));
  }

  const std::shared_ptr<FileJob>& job_;
  Pool& pool_;
  Window& window_;
  const std::vector<Place>& places_;
  const std::string& label_;
};

Status whole_image(const std::shared_ptr<FileJob>& job, Pool& pool, Window& window, std::uint16_t kind,
                   const std::string& label) {
  const Result<Bytes> bytes = window.peek(static_cast<std::size_t>(kMaxStored) + 1);
  if (!bytes) return bytes.error();
  if (bytes->size() > kMaxStored) {
    job->add_problem(
        refuse("TE0808", "an image is too large", job->path(), fmt::format("at most {} B", kMaxStored), "more"));
    return ok();
  }
  FatbinEntry entry;
  entry.kind = kind;
  entry.offset = window.position();
  entry.stored = bytes->size();
  FileJob::add_image(job, pool, entry, *bytes, job->new_module(), label);
  return window.skip(entry.stored);
}

}  // namespace

Content content_of(Bytes head) {
  if (looks_like_cubin(head)) return Content::cubin;
  if (looks_like_elf(head) || (head.size() > 64 && as_text(head).starts_with("MZ"))) return Content::host;
  if (head.size() >= 4 && as_text(head).starts_with(kFatbinMagic)) return Content::fatbin;
  if (looks_like_archive(head)) return Content::archive;
  if (looks_like_zip(head)) return Content::zip;
  if (looks_like_ptx(head)) return Content::ptx;
  return Content::none;
}

Result<std::vector<Place>> section_places(const ReadAt& read, std::uint64_t size, std::string_view where) {
  std::vector<Place> places;
  const Result<std::vector<std::byte>> head = read(0, kElfHeaderSize);
  if (!head) return head.error();
  const Bytes header(*head);
  if (!looks_like_elf(header)) return places;
  if (header.size() < kElfHeaderSize) {
    return refuse("TE0801", "the file ends inside the ELF header", std::string(where),
                  fmt::format("{} B", kElfHeaderSize), fmt::format("{} B", header.size()));
  }
  if (load<std::uint8_t>(header, 4) != 2 || load<std::uint8_t>(header, 5) != 1) return places;
  const std::uint64_t offset = load<std::uint64_t>(header, 40).value_or(0);
  const std::uint64_t count = load<std::uint16_t>(header, 60).value_or(0);
  const std::uint64_t names_index = load<std::uint16_t>(header, 62).value_or(0);
  if (offset == 0 || count == 0 || load<std::uint16_t>(header, 58) != kSectionHeader) return places;
  if (offset > size || count * kSectionHeader > size - offset) {
    return refuse("TE0801", "the file was cut short: its section headers are missing", std::string(where),
                  fmt::format("{} B", offset + std::min(count, kMaxSections) * kSectionHeader),
                  fmt::format("{} B", size));
  }
  const Result<std::vector<std::byte>> table = read(offset, count * kSectionHeader);
  if (!table) return table.error();
  const Bytes all(*table);
  const auto at = [&](std::uint64_t index, std::uint64_t field_at) {
    return load<std::uint64_t>(all, index * kSectionHeader + field_at).value_or(0);
  };
  const auto type_of = [&](std::uint64_t index) {
    return load<std::uint32_t>(all, index * kSectionHeader + 4).value_or(0);
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type_of(i) == 0 || type_of(i) == kSectionNoBits) continue;
    if (at(i, 24) > size || at(i, 32) > size - at(i, 24)) {
      return refuse("TE0802", "a section lies outside the file", fmt::format("{}: section {}", where, i),
                    fmt::format("{} B from byte {}", at(i, 32), at(i, 24)), fmt::format("{} B in all", size));
    }
  }
  if (names_index >= count || at(names_index, 32) > kMaxNames) return places;
  const Result<std::vector<std::byte>> names = read(at(names_index, 24), at(names_index, 32));
  if (!names) return names.error();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type_of(i) == 0 || type_of(i) == kSectionNoBits) continue;
    const std::optional<std::string_view> name =
        c_string(Bytes(*names), load<std::uint32_t>(all, i * kSectionHeader).value_or(0));
    if (name && !name->empty()) places.push_back({at(i, 24), at(i, 32), std::string(name->substr(0, 64))});
  }
  return places;
}

Status scan(const std::shared_ptr<FileJob>& job, Pool& pool, Window& window, const std::vector<Place>& places,
            const std::string& label, int depth) {
  const Result<Bytes> head = window.peek(kHead);
  if (!head) return head.error();
  switch (content_of(*head)) {
    case Content::none:
    case Content::zip:
      return ok();
    case Content::cubin:
      return whole_image(job, pool, window, 2, label);
    case Content::ptx:
      return whole_image(job, pool, window, 1, label);
    case Content::archive: {
      if (depth > 0) return ok();
      const Status read =
          read_archive(window, job->path(), [&](const std::string& member, Window& data, std::uint64_t) {
            return scan(job, pool, data, places, member, depth + 1);
          });
      if (!read && read.error().id == "TE0812") {
        job->add_problem(read.error());
        return ok();
      }
      return read;
    }
    case Content::fatbin:
      if (!looks_like_fatbin(*head)) {
        job->add_problem(refuse("TE0807", "a fat binary of an unknown version", job->path(),
                                "version 1, 16 B of header", "other values"));
        return ok();
      }
      return Carver(job, pool, window, places, label).run();
    case Content::host: {
      const std::optional<std::uint16_t> type = load<std::uint16_t>(*head, 16);
      const bool linked = !looks_like_elf(*head) || (type && *type != 1);
      if (linked && label.empty()) job->set_linked();
      return Carver(job, pool, window, places, label).run();
    }
  }
  return ok();
}

BinaryFile read_bytes(Bytes bytes, const std::string& name) {
  BinaryFile out;
  {
    Pool pool(1, kMaxStored);
    const auto job = std::make_shared<FileJob>(name, "", [&](BinaryFile&& file) { out = std::move(file); });
    job->add_bytes(bytes.size());
    const Result<std::vector<Place>> places = section_places(
        [&](std::uint64_t offset, std::uint64_t size) -> Result<std::vector<std::byte>> {
          const std::uint64_t from = std::min<std::uint64_t>(offset, bytes.size());
          const Bytes part =
              bytes.subspan(static_cast<std::size_t>(from),
                            static_cast<std::size_t>(std::min<std::uint64_t>(size, bytes.size() - from)));
          return std::vector<std::byte>(part.begin(), part.end());
        },
        bytes.size(), name);
    if (!places) job->add_problem(places.error());
    Window window(bytes);
    const Status status = scan(job, pool, window, places ? *places : std::vector<Place>{}, "");
    if (!status) job->add_problem(status.error());
  }
  return out;
}

}  // namespace tetrad::binary
