// Writing a folder all or nothing (internal): made beside its name, synced, renamed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/file.hpp"
#include "tetrad/error.hpp"

namespace tetrad::checkpoint {

// A new file, written at offsets. Errors of all members: TE0242 with the system's text.
class OutputFile {
 public:
  // `size` bytes are reserved at once where the file system can, so that a full disk shows before the work.
  static Result<OutputFile> create(const std::string& path, std::uint64_t size);
  Status write(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  // Data and size reach the disk, then the file is closed.
  Status finish();

 private:
  std::string path_;
  Fd fd_;
};

Status write_whole_file(const std::string& path, std::string_view text);

// A folder under a temporary name beside `final_path`. Unless commit() succeeds, the destructor removes it. A folder
// that a killed writer left behind is removed by the next writer to the same name: its lock is free.
class OutputFolder {
 public:
  // Errors: TE0241 (the final path exists), TE0242.
  static Result<OutputFolder> create(const std::string& final_path);
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();

  const std::string& path() const { return path_; }
  // Syncs every folder inside, renames, syncs the parent. Errors: TE0241 (someone else made the final path), TE0242.
  Status commit();

 private:
  OutputFolder() = default;
  std::string final_path_;
  std::string path_;
  Fd lock_;
};

}  // namespace tetrad::checkpoint
