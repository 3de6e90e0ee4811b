// From the bytes of one file to the images in it (internal).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "binary/fatbin.hpp"
#include "binary/pool.hpp"
#include "binary/window.hpp"
#include "tetrad/binary.hpp"

namespace tetrad::binary {

// What a file is by its first bytes (4096 of them, or all).
enum class Content : std::uint8_t { none, host, cubin, fatbin, archive, ptx, zip };
Content content_of(Bytes head);

// A named stretch of a file.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::string name;
};

// Sections of a host's ELF file, read piece by piece with `read` (an offset and how many bytes; fewer at the end).
// Empty for what is no ELF64 file. Error: TE0802, a section or header table beyond the file's end.
using ReadAt = std::function<Result<std::vector<std::byte>>(std::uint64_t offset, std::uint64_t size)>;
Result<std::vector<Place>> section_places(const ReadAt& read, std::uint64_t size, std::string_view where);

// One file in work. Its images are read on any thread; `done` is called once, with the finished file, from the thread
// that finishes it.
class FileJob {
 public:
  FileJob(std::string path, std::string pattern, std::function<void(BinaryFile&&)> done);
  FileJob(const FileJob&) = delete;
  FileJob& operator=(const FileJob&) = delete;
  ~FileJob();

  const std::string& path() const { return path_; }
  // Before the first image: BinaryOptions::cubin.
  void set_observer(decltype(BinaryOptions::cubin) observer) { observer_ = std::move(observer); }
  std::uint32_t new_module();
  void add_bytes(std::uint64_t bytes);
  // The file is a linked library or program: relocatable code in it was an input of that link.
  void set_linked();
  void add_problem(const Error& error);
  // Reads the image on `pool`; `self` keeps the job alive until then.
  static void add_image(const std::shared_ptr<FileJob>& self, Pool& pool, const FatbinEntry& entry, Bytes payload,
                        std::uint32_t module, std::string section);

 private:
  void read_image(const FatbinEntry& entry, Bytes payload, std::size_t index);
  void read_code(CodeImage& image, Bytes bytes, const FatbinEntry& entry, std::size_t index);
  void finish();

  std::string path_;
  std::string pattern_;
  std::function<void(BinaryFile&&)> done_;
  decltype(BinaryOptions::cubin) observer_;
  std::mutex mutex_;
  BinaryFile file_;
  std::vector<std::vector<KernelGroup>> groups_;  // by image
  std::vector<bool> has_code_;                    // by image
  std::uint32_t modules_ = 0;
  bool linked_ = false;
};

// Reads `window` to its end and gives what is found to `job`; `label` names the archive's member, or is empty. Errors:
// those of the window's reader; damage inside is a problem of the job.
Status scan(const std::shared_ptr<FileJob>& job, Pool& pool, Window& window, const std::vector<Place>& places,
            const std::string& label, int depth = 0);

// All of read_binary that needs no file: one file's bytes, on this thread (tests and the fuzzer).
BinaryFile read_bytes(Bytes bytes, const std::string& name);

}  // namespace tetrad::binary
