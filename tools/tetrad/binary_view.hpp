// How `tetrad binary` shows a BinaryReport: per library, per device, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli.hpp"
#include "tetrad/binary.hpp"
#include "tetrad/device.hpp"

namespace tetrad::cli {

class BinaryView {
 public:
  // `report` must outlive the view.
  explicit BinaryView(const BinaryReport& report);

  bool has_code() const;
  std::vector<Error> problems() const;
  // Everything together.
  DeviceAnswer answer(ComputeCapability device) const;

  std::string summary(const Context& context) const;
  std::string capabilities(const Context& context, const std::vector<DeviceProfile>& devices) const;
  std::string device(const Context& context, const DeviceProfile& device) const;
  std::string kernels(const Context& context, const std::string& pattern) const;
  std::string require_text(const Context& context, const std::string& require,
                           const std::vector<DeviceProfile>& devices, const std::vector<std::string>& unmet) const;
  void put(nlohmann::json& out, const std::vector<DeviceProfile>& devices) const;

 private:
  // A row: one file, or all loose cubins of a folder.
  struct Library {
    std::string name;
    std::vector<const BinaryFile*> files;
    std::uint64_t bytes = 0;
    std::uint64_t modules = 0;
    std::uint64_t cubins = 0;
    std::uint64_t ptx = 0;
    std::uint64_t kernels = 0;
    std::string targets;
  };
  std::size_t prefix() const;

  const BinaryReport& report_;
  std::vector<Library> libraries_;
};

}  // namespace tetrad::cli
