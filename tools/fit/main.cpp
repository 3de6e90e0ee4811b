// tetrad-fit: fits the cost model to the measurements in the library.
//   tetrad-fit DEVICE              the device's costs as JSON (data/costs/DEVICE.json)
//   tetrad-fit DEVICE --markdown   the tables of docs/cost-model.md
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tetrad/device.hpp"
#include "tetrad/fit.hpp"
#include "tetrad/records.hpp"

namespace {

int fail(const tetrad::Error& error) {
  fmt::print(stderr, "error[{}]: {}\n", error.id, error.what);
  if (!error.need.empty()) fmt::print(stderr, "  need  {}\n  have  {}\n", error.need, error.have);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool markdown = words.size() == 2 && words[1] == "--markdown";
  if (words.size() != 1 && !markdown) {
    fmt::print(stderr, "usage: tetrad-fit DEVICE [--markdown]\n");
    return 2;
  }
  const tetrad::Result<tetrad::DeviceProfile> device = tetrad::find_device(words[0]);
  if (!device) return fail(device.error());
  const tetrad::Result<tetrad::FitReport> report =
      tetrad::fit_costs(*device, tetrad::peer_candidates(), tetrad::known_records().measurements);
  if (!report) return fail(report.error());
  if (markdown) {
    fmt::print("{}", tetrad::to_markdown(*report, *device));
    return 0;
  }
  tetrad::Records records;
  records.costs = report->costs;
  fmt::print("{}", tetrad::records_to_json(records));
  return 0;
}
