// Lists of devices: built in, read from a folder, searched by name.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <system_error>

#include "core/embedded.hpp"
#include "core/text.hpp"
#include "device/quote.hpp"
#include "tetrad/device.hpp"

namespace tetrad {
namespace embedded {
std::span<const core::EmbeddedFile> device_files();
}

namespace {

Error bad(std::string id, std::string what, std::string where, std::string need, std::string have) {
  return {ErrorKind::input, std::move(id), std::move(what), std::move(where), std::move(need), std::move(have), {}, {}};
}

void sort_by_slug(std::vector<DeviceProfile>& devices) {
  std::sort(devices.begin(), devices.end(),
            [](const DeviceProfile& a, const DeviceProfile& b) { return a.slug < b.slug; });
}

// Every word that finds a device must find one device only.
Status check_unique(const std::vector<DeviceProfile>& devices, const std::string& folder) {
  std::map<std::string, std::string> owner;
  for (const DeviceProfile& device : devices) {
    std::vector<std::string> words = device.aliases;
    words.push_back(device.slug);
    for (const std::string& word : words) {
      const auto [at, added] = owner.try_emplace(core::lower(word), device.slug);
      if (!added && at->second != device.slug) {
        return bad("TE0313", fmt::format("'{}' names two devices", word), folder, "a slug or alias for one device",
                   fmt::format("{} and {}", at->second, device.slug));
      }
    }
  }
  return ok();
}

Result<DeviceProfile> read_device(const std::filesystem::path& path) {
  constexpr std::size_t kMaxBytes = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (!file || (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())) {
    return bad("TE0310", "cannot read a device file", path.string(), "a readable file", "");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return device_from_json(text, path.string());
}

}  // namespace

const std::vector<DeviceProfile>& known_devices() {
  static const std::vector<DeviceProfile> devices = [] {
    std::vector<DeviceProfile> list;
    for (const core::EmbeddedFile& file : embedded::device_files()) {
      Result<DeviceProfile> device = device_from_json(file.text, file.name);
      // A file that does not read is dropped here; tests/device reads each one.
      if (device) list.push_back(std::move(*device));
    }
    sort_by_slug(list);
    return list;
  }();
  return devices;
}

Result<DeviceProfile> find_device(std::string_view name) { return find_device(name, known_devices()); }

Result<DeviceProfile> find_device(std::string_view name, const std::vector<DeviceProfile>& devices) {
  const std::string word = core::lower(name);
  std::vector<std::string> words;
  for (const DeviceProfile& device : devices) {
    const bool alias = std::any_of(device.aliases.begin(), device.aliases.end(),
                                   [&](const std::string& other) { return core::lower(other) == word; });
    if (alias || core::lower(device.slug) == word || core::lower(device.name) == word) return device;
    words.push_back(device.slug);
    words.insert(words.end(), device.aliases.begin(), device.aliases.end());
  }
  if (word == "host" || word == "cpu") return host_device();
  words.emplace_back("host");
  Error error =
      bad("TE0301", "unknown device " + device::quote(name), "", "the slug, an alias or the full name of a device", "");
  error.hint = "'tetrad devices' lists all";
  const std::string near = core::did_you_mean(word, words);
  if (!near.empty()) error.hint = near + " " + error.hint;
  return error;
}

Result<std::vector<DeviceProfile>> load_devices(const std::string& folder) {
  std::error_code code;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->path().extension() == ".json") paths.push_back(at->path());
  }
  if (code) return bad("TE0310", "cannot read the folder of device files", folder, "a readable folder", code.message());
  std::sort(paths.begin(), paths.end());

  std::vector<DeviceProfile> devices = known_devices();
  for (const std::filesystem::path& path : paths) {
    Result<DeviceProfile> device = read_device(path);
    if (!device) return device.error();
    std::erase_if(devices, [&](const DeviceProfile& other) { return other.slug == device->slug; });
    devices.push_back(std::move(*device));
  }
  sort_by_slug(devices);
  const Status unique = check_unique(devices, folder);
  if (!unique) return unique.error();
  return devices;
}

}  // namespace tetrad
