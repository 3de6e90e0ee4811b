#include "disasm.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

namespace tetrad::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxLine = 1 << 16;
constexpr std::size_t kMaxComplaint = 2000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool runnable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<fs::path> path_folders() {
  std::vector<fs::path> folders;
  const std::string path = environment("PATH");
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return folders;
}

// nvidia/*/bin/nvdisasm below lib/python3*/{site,dist}-packages of `prefix`, the newest name last.
std::optional<std::string> from_packages(const fs::path& prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      std::error_code none;
      for (const auto& part : fs::directory_iterator(python.path() / packages / "nvidia", none)) {
        const fs::path tool = part.path() / "bin" / "nvdisasm";
        if (runnable(tool)) found.push_back(tool.string());
      }
    }
  }
  if (found.empty()) return std::nullopt;
  return *std::max_element(found.begin(), found.end());
}

Error failed(std::string what, std::string where, std::string have) {
  return {ErrorKind::unavailable,
          "TE0842",
          std::move(what),
          std::move(where),
          "a listing",
          std::move(have),
          {},
          "NVDISASM=PATH names another nvdisasm"};
}

Error beyond(std::string what, std::string where, std::string need, std::string have) {
  return {
      ErrorKind::unavailable, "TE0843", std::move(what), std::move(where), std::move(need), std::move(have), {}, {}};
}

// A temporary file that is gone with the object.
struct Scratch {
  std::string path = (fs::temp_directory_path() / "tetrad-XXXXXX").string();
  int fd = -1;
  Scratch() : fd(::mkstemp(path.data())) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (fd < 0) return;
    ::close(fd);
    ::unlink(path.c_str());
  }
  bool write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return true;
  }
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::optional<SassClass> converts(std::string_view mnemonic) {
  // Results before operands: F2FP.<modifiers>.<result>.<operand>.<how>.
  const std::size_t narrow = mnemonic.find(".E2M1.");
  if (narrow != std::string_view::npos) {
    const std::string_view before = mnemonic.substr(0, narrow);
    return before.ends_with(".F16") || before.ends_with(".BF16") || before.ends_with(".BF16_V2") ? SassClass::fp4_unpack
                                                                                                 : SassClass::fp4_pack;
  }
  if (contains(mnemonic, ".E2M3.") || contains(mnemonic, ".E3M2.")) return SassClass::fp6_convert;
  if (contains(mnemonic, ".E4M3.") || contains(mnemonic, ".E5M2.")) return SassClass::fp8_convert;
  return std::nullopt;
}

bool cuts_codes(std::string_view operands) {
  static constexpr std::array<std::string_view, 10> kMasks = {"0xf0f0f0f", "0xf0f0f0f0", "0xf000f",    "0xf000f0",
                                                              "0xf000f00", "0xf000f000", "0x70007000", "0x7000700",
                                                              "0xe000e00", "0x1c001c0"};
  for (const std::string_view mask : kMasks) {
    for (std::size_t at = operands.find(mask); at != std::string_view::npos; at = operands.find(mask, at + 1)) {
      const std::size_t end = at + mask.size();
      if (end == operands.size() || std::isxdigit(static_cast<unsigned char>(operands[end])) == 0) return true;
    }
  }
  return false;
}

std::optional<SassClass> class_of(std::string_view mnemonic, std::string_view operands) {
  const std::string_view head = mnemonic.substr(0, mnemonic.find('.'));
  if (head == "F2FP") return converts(mnemonic);
  if (head == "LOP3") return cuts_codes(operands) ? std::optional(SassClass::nibble_mask) : std::nullopt;
  for (std::size_t i = 0; i < kSassClasses; ++i) {
    if (name(static_cast<SassClass>(i)) == head) return static_cast<SassClass>(i);
  }
  return std::nullopt;
}

// Reads a listing line by line; memory is one line and the counts.
class Listing {
 public:
  void add(std::string_view line) {
    const std::size_t section = line.find(".section");
    if (section != std::string_view::npos && line.find_first_not_of(" \t") == section) {
      std::size_t at = line.find(".text.", section);
      if (at == std::string_view::npos) return;
      at += std::strlen(".text.");
      current_ = &counts_[std::string(line.substr(at, line.find_first_of("\",", at) - at))];
      return;
    }
    // "        /*0010*/                   S2R R3, SR_TID.X ;"; a guard "@!P0" may stand before the mnemonic.
    std::size_t at = line.find_first_not_of(" \t");
    if (current_ == nullptr || at == std::string_view::npos || line.substr(at, 2) != "/*") return;
    at = line.find("*/", at);
    if (at == std::string_view::npos) return;
    at = line.find_first_not_of(" \t", at + 2);
    if (at != std::string_view::npos && line[at] == '@') at = line.find_first_not_of(" \t", line.find(' ', at));
    if (at == std::string_view::npos || line[at] < 'A' || line[at] > 'Z') return;
    const std::size_t end = std::min(line.find_first_of(" ;", at), line.size());
    ++current_->instructions;
    const std::optional<SassClass> what = class_of(line.substr(at, end - at), line.substr(end));
    if (what) ++current_->of[static_cast<std::size_t>(*what)];
  }
  std::map<std::string, SassCounts> take() { return std::move(counts_); }

 private:
  std::map<std::string, SassCounts> counts_;
  SassCounts* current_ = nullptr;
};

struct Child {
  pid_t pid = -1;
  int out = -1, complaint = -1;
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (out >= 0) ::close(out);
    if (complaint >= 0) ::close(complaint);
    if (pid > 0) {
      ::kill(-pid, SIGKILL);
      int status = 0;
      while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
    }
  }
  // -1 where the child did not end by itself.
  int wait() {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

bool start(const std::string& tool, const std::string& file, Child& child) {
  int out[2] = {-1, -1};
  int complaint[2] = {-1, -1};
  if (::pipe2(out, O_CLOEXEC) != 0) return false;
  child.out = out[0];
  if (::pipe2(complaint, O_CLOEXEC) != 0) {
    ::close(out[1]);
    return false;
  }
  child.complaint = complaint[0];
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, complaint[1], 2);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  std::array<std::string, 4> words = {tool, "-c", "-ndf", file};
  std::array<char*, 5> argv = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  const int failure = ::posix_spawn(&child.pid, tool.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(out[1]);
  ::close(complaint[1]);
  if (failure != 0) child.pid = -1;
  return failure == 0;
}

}  // namespace

Result<std::string> find_nvdisasm() {
  const std::string named = environment("NVDISASM");
  if (!named.empty()) {
    if (runnable(named)) return named;
    return Error{ErrorKind::unavailable, "TE0841", "no nvdisasm", "NVDISASM", "a program", named, {}, {}};
  }
  std::vector<fs::path> folders;
  if (const std::string home = environment("CUDA_HOME"); !home.empty()) folders.push_back(fs::path(home) / "bin");
  std::vector<fs::path> on_path = path_folders();
  folders.insert(folders.end(), on_path.begin(), on_path.end());
  folders.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders) {
    if (runnable(folder / "nvdisasm")) return (folder / "nvdisasm").string();
  }
  std::vector<fs::path> prefixes;
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty()) prefixes.emplace_back(active);
  if (const std::string home = environment("HOME"); !home.empty()) prefixes.push_back(fs::path(home) / ".local");
  for (const fs::path& folder : on_path) {
    std::error_code error;
    const fs::path python = fs::canonical(folder / "python3", error);
    if (!error) prefixes.push_back(python.parent_path().parent_path());
  }
  for (const fs::path& prefix : prefixes) {
    if (const std::optional<std::string> tool = from_packages(prefix)) return *tool;
  }
  return Error{ErrorKind::unavailable,
               "TE0841",
               "no nvdisasm",
               "",
               "NVIDIA's disassembler",
               "none in CUDA_HOME, on PATH or in Python's packages",
               {},
               "pip install nvidia-cuda-nvdisasm"};
}

Result<std::map<std::string, SassCounts>> disassemble(const std::string& nvdisasm, std::span<const std::byte> cubin,
                                                      const DisasmLimits& limits) {
  const Scratch file;
  if (file.fd < 0 || !file.write(cubin)) return failed("no temporary file", file.path, std::strerror(errno));
  Child child;
  if (!start(nvdisasm, file.path, child))
    return failed("nvdisasm could not be started", nvdisasm, std::strerror(errno));

  const auto end = std::chrono::steady_clock::now() + limits.time;
  Listing listing;
  std::string line;
  std::string complaint;
  std::uint64_t read_bytes = 0;
  std::array<pollfd, 2> streams = {pollfd{child.out, POLLIN, 0}, pollfd{child.complaint, POLLIN, 0}};
  std::vector<char> buffer(1 << 16);
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return beyond("nvdisasm did not end", nvdisasm, fmt::format("at most {} ms", limits.time.count()),
                    "still running");
    }
    const int ready =
        ::poll(streams.data(), streams.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    if (ready < 0 && errno != EINTR) return failed("nvdisasm could not be read", nvdisasm, std::strerror(errno));
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (ready <= 0 || streams[i].fd < 0 || streams[i].revents == 0) continue;
      const ssize_t got = ::read(streams[i].fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        streams[i].fd = -1;  // poll skips it
        continue;
      }
      const std::string_view part(buffer.data(), static_cast<std::size_t>(got));
      read_bytes += part.size();
      if (read_bytes > limits.output) {
        return beyond("nvdisasm printed too much", nvdisasm, fmt::format("at most {} B", limits.output), "more");
      }
      if (i == 1) {
        complaint += part.substr(0, kMaxComplaint - std::min(kMaxComplaint, complaint.size()));
        continue;
      }
      for (std::size_t at = 0; at < part.size();) {
        const std::size_t stop = std::min(part.find('\n', at), part.size());
        line += part.substr(at, stop - at);
        if (line.size() > kMaxLine) return failed("nvdisasm printed no listing", nvdisasm, "a line without end");
        if (stop < part.size()) {
          listing.add(line);
          line.clear();
        }
        at = stop + 1;
      }
    }
  }
  const int code = child.wait();
  if (code != 0) {
    std::string said = complaint.substr(0, complaint.find('\n'));
    return failed(code < 0 ? "nvdisasm was ended by a signal" : fmt::format("nvdisasm failed with code {}", code),
                  nvdisasm, said.empty() ? "no message" : std::move(said));
  }
  std::map<std::string, SassCounts> counts = listing.take();
  if (counts.empty()) return failed("nvdisasm printed no listing", nvdisasm, fmt::format("{} B", read_bytes));
  return counts;
}

std::vector<std::string> differences(const CubinReport& report, const std::map<std::string, SassCounts>& listed) {
  std::vector<std::string> lines;
  for (const KernelReport& kernel : report.kernels) {
    const auto at = listed.find(kernel.name);
    if (at == listed.end()) {
      lines.push_back(fmt::format("{}: not in nvdisasm's listing", kernel.name));
      continue;
    }
    if (kernel.counts.instructions != at->second.instructions) {
      lines.push_back(fmt::format("{}: {} instructions, nvdisasm has {}", kernel.name, kernel.counts.instructions,
                                  at->second.instructions));
    }
    for (std::size_t i = 0; i < kSassClasses; ++i) {
      if (kernel.counts.of[i] == at->second.of[i]) continue;
      lines.push_back(fmt::format("{}: {} {}, nvdisasm has {}", kernel.name, kernel.counts.of[i],
                                  name(static_cast<SassClass>(i)), at->second.of[i]));
    }
  }
  return lines;
}

}  // namespace tetrad::cli
