// The CPU this program runs on, read from the system (Linux; elsewhere what the standard library tells).
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <thread>

#include "tetrad/device.hpp"

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tetrad {
namespace {

constexpr std::string_view kCpuinfo = "/proc/cpuinfo";
constexpr std::string_view kMeminfo = "/proc/meminfo";
constexpr std::string_view kCaches = "/sys/devices/system/cpu/cpu0/cache";

// The value of the first "key : value" line, or "".
std::string line_of(std::string_view path, std::string_view key) {
  std::ifstream file{std::string(path)};
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) {
      const std::size_t from = line.find_first_not_of(" \t", colon + 1);
      return from == std::string::npos ? "" : line.substr(from);
    }
  }
  return "";
}

std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || value < 1) return std::nullopt;
  return value;
}

template <class T>
Fact<T> read_from_system(std::optional<T> value, std::string source, std::string note) {
  Fact<T> fact;
  if (!value) {
    fact.note = source + " does not tell";
    return fact;
  }
  fact.value = value;
  fact.origin = Origin::driver;
  fact.certainty = Certainty::measured_here;
  fact.source = std::move(source);
  fact.note = std::move(note);
  return fact;
}

Fact<std::int64_t> threads() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) {
    return read_from_system<std::int64_t>(CPU_COUNT(&set), "sched_getaffinity", "threads that this process may use");
  }
#endif
  const unsigned count = std::thread::hardware_concurrency();
  return read_from_system<std::int64_t>(count > 0 ? std::optional<std::int64_t>(count) : std::nullopt,
                                        "std::thread::hardware_concurrency", "threads of the machine");
}

// The highest level of data cache that cpu 0 lists: what one copy of the weights may stay in between two runs.
Fact<std::int64_t> last_cache() {
  std::int64_t best_level = 0;
  std::optional<std::int64_t> bytes;
  std::string shared;
  for (int index = 0; index < 8; ++index) {
    const auto read = [&](const char* what) {
      std::ifstream file(fmt::format("{}/index{}/{}", kCaches, index, what));
      std::string text;
      std::getline(file, text);
      return text;
    };
    const std::string size = read("size");
    const auto level = leading_number(read("level"));
    const auto number = leading_number(size);
    if (!level || !number || read("type") == "Instruction" || *level <= best_level) continue;
    const std::int64_t unit = size.ends_with('K') ? 1024 : size.ends_with('M') ? 1024 * 1024 : 1;
    best_level = *level;
    bytes = *number * unit;
    shared = read("shared_cpu_list");
  }
  return read_from_system(bytes, std::string(kCaches),
                          fmt::format("level {} data cache of cpu 0, shared by cpus {}", best_level, shared));
}

Fact<std::int64_t> memory() {
  const auto kib = leading_number(line_of(kMeminfo, "MemTotal"));
  return read_from_system(kib ? std::optional<std::int64_t>(*kib * 1024) : std::nullopt,
                          std::string(kMeminfo) + " MemTotal", "of the machine; a container may allow less");
}

Fact<double> clock() {
  const std::string path = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  const auto khz = leading_number(text);
  return read_from_system(khz ? std::optional<double>(static_cast<double>(*khz) * 1e3) : std::nullopt, path, "");
}

std::string cpu_name() {
  std::string name = line_of(kCpuinfo, "model name");
  std::erase_if(name, [](char c) { return c < 0x20 || c > 0x7E; });
  while (name.ends_with(' ')) name.pop_back();
  return name.empty() ? "CPU" : name.substr(0, 120);
}

std::vector<Feature> detect() {
  std::vector<Feature> features;
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool avx_vnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1U << 4)) != 0;
  // __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool avx512_vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (avx2) features.push_back(Feature::host_avx2);
  if (avx512) features.push_back(Feature::host_avx512);
  if (avx512_vnni || (avx2 && avx_vnni)) features.push_back(Feature::host_vnni);
#endif
  return features;
}

template <class T>
void explain(Fact<T>& fact, std::string_view why) {
  if (!fact.known() && fact.note.empty()) fact.note = why;
}

}  // namespace

DeviceProfile host_device() {
  DeviceProfile device;
  device.name = cpu_name();
  device.slug = "host";
  device.aliases = {"cpu"};
  device.host = true;
  device.features = detect();
  device.sms = threads();
  device.l2_bytes = last_cache();
  device.memory_bytes = memory();
  device.boost_clock_hz = clock();
  device.unified_memory.value = true;
  device.unified_memory.origin = Origin::driver;
  device.unified_memory.certainty = Certainty::measured_here;
  device.unified_memory.source = "the device is the cpu";
  explain(device.smem_per_sm, "a cpu has no shared memory");
  explain(device.smem_per_block_optin, "a cpu has no shared memory");
  explain(device.registers_per_sm, "not a limit that a cpu kernel plans with");
  explain(device.peak_fp8, "no fp8 arithmetic on this cpu");
  explain(device.peak_nvfp4, "no fp4 arithmetic on this cpu");
  for_each_fact(device, [](std::string_view, auto& fact) { explain(fact, "not measured yet"); });
  return device;
}

}  // namespace tetrad
