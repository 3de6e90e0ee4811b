#include "record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tetrad/kernels.hpp"

namespace tetrad::cli {
namespace {

Error file_error(const std::string& path, std::string what, std::string have) {
  return Error{ErrorKind::input, "TE0661", std::move(what), path, "a file of records", std::move(have), {}, ""};
}

// The file's records; none if it does not exist.
Result<Records> read_file(const std::string& path, bool must_exist, bool to_write) {
  Records records;
  std::error_code code;
  if (!std::filesystem::exists(path, code)) {
    if (must_exist) return file_error(path, "the file cannot be read", "no such file");
    return records;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() && !file.eof()) return file_error(path, "the file cannot be read", std::strerror(errno));
  if (Status read = read_records(text, path, records); !read) return read.error();
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (to_write && document.value("schema", "") != records_schema()) {
    return Error{ErrorKind::input,
                 "TE0510",
                 "the records are of a later version, which this one must not write over",
                 path,
                 std::string(records_schema()),
                 document.value("schema", ""),
                 {},
                 "name another file"};
  }
  return records;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

// Holds FILE.lock until the end of its life. The lock file stays: removing it would let two writers hold two of them.
class Lock {
 public:
  explicit Lock(const std::string& path) : fd_(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      ::close(fd_);
      fd_ = -1;
    }
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_;
};

}  // namespace

std::string host_identity(const DeviceProfile& host) {
  std::vector<std::string_view> features;
  for (const Feature feature : host.features) features.push_back(name(feature));
  return fmt::format("{}; {}; {} threads", host.name, fmt::join(features, " "), host.sms.value.value_or(0));
}

Result<Records> session_records(const std::string& file) {
  const char* variable = std::getenv("TETRAD_RECORDS");
  const std::string path = !file.empty() ? file : variable != nullptr ? variable : "";
  Records records = known_records();
  if (path.empty()) return records;
  const Result<Records> own = read_file(path, !file.empty(), false);
  if (!own) return own.error();
  merge_records(records, *own);
  const DeviceProfile host = host_device();
  return records_here(std::move(records), host.slug, host_identity(host));
}

EvidenceRecord evidence_record(const Context& context, const DeviceProfile& host, const std::string& kernel,
                               Evidence evidence, const measure::Checked& checked, const Problem& problem) {
  EvidenceRecord record;
  record.kernel = kernel;
  record.evidence = evidence;
  record.digest = find_kernel(kernel)->digest;
  record.device = host.slug;
  record.driver = host_identity(host);
  record.tool_version = TETRAD_VERSION;
  record.date = now();
  record.command = fmt::format("tetrad {}", fmt::join(context.argv, " "));
  if (checked.report.judgement != Judgement::pass) {
    record.evidence = Evidence::probed;
    record.failure = fmt::format("{}: {}, {} of {} elements over the bound, {:.3g} times it at worst", to_text(problem),
                                 measure::word(checked.report.judgement), checked.report.over_bound,
                                 checked.report.elements, checked.report.worst_ratio);
  }
  return record;
}

Status check_record_file(const std::string& path) {
  const Lock lock(path);
  if (!lock.held()) return file_error(path, "records cannot be added to the file", std::strerror(errno));
  if (const Result<Records> records = read_file(path, false, true); !records) return records.error();
  return measure::check_output(path);
}

Status add_records(const std::string& path, const Records& more) {
  const Lock lock(path);
  if (!lock.held()) return file_error(path, "records cannot be added to the file", std::strerror(errno));
  Result<Records> records = read_file(path, false, true);
  if (!records) return records.error();
  merge_records(*records, more);
  return measure::write_file(path, records_to_json(*records));
}

}  // namespace tetrad::cli
