// Files that the checkpoint tests make: safetensors text by hand, folders that remove themselves.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tetrad::testing_files {

namespace fs = std::filesystem;

inline std::string length_word(std::uint64_t length) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);  // the tests run on little-endian hosts
  return out;
}

inline std::string safetensors(std::string_view header, std::string_view data) {
  return length_word(header.size()) + std::string(header) + std::string(data);
}

// One tensor for the header and its bytes.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

inline std::string safetensors(const std::vector<Entry>& entries) {
  std::string header = "{";
  std::string data;
  for (const Entry& e : entries) {
    if (header.size() > 1) header += ',';
    header.append("\"").append(e.name).append("\":{\"dtype\":\"").append(e.dtype).append("\",\"shape\":[");
    for (std::size_t i = 0; i < e.shape.size(); ++i)
      header.append(i == 0 ? "" : ",").append(std::to_string(e.shape[i]));
    header.append("],\"data_offsets\":[").append(std::to_string(data.size())).append(",");
    header.append(std::to_string(data.size() + e.data.size())).append("]}");
    data += e.data;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return safetensors(header, data);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

inline std::string f32(float value) { return bytes_of(std::vector<float>{value}); }

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "tetrad-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code code;
    fs::remove_all(path_, code);
  }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  std::string write(std::string_view name, std::string_view content) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }
  std::size_t entries() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(path_)) ++n;
    return n;
  }

 private:
  fs::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace tetrad::testing_files
