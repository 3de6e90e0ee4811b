// Evidence and measurements as files: who ran what, where, when, with which machine code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/candidate.hpp"
#include "tetrad/error.hpp"
#include "tetrad/problem.hpp"

namespace tetrad {

// One fact about one kernel on one device, written by a tool run (never by hand).
struct EvidenceRecord {
  std::string kernel;
  Evidence evidence = Evidence::declared;
  std::string digest;  // of the kernel's machine code; another digest today drops the record to `built`
  std::string device;  // slug
  std::string driver;  // for a CPU what tells it from others: model, features, threads
  std::string tool_version;
  std::string date;  // RFC 3339
  std::string command;
  std::string failure;  // what a probe saw go wrong; empty if it passed
};

// One timing of one kernel for one problem on one device.
struct Measurement {
  std::string kernel;
  std::string device;  // slug
  Problem problem;
  double seconds = 0.0;  // median; 0 where only a ratio was published
  double ratio = 0.0;    // time as a multiple of `ratio_of`'s; 0 where `seconds` is given
  std::string ratio_of;  // kernel that the ratio refers to
  std::string source;    // file or command, date
  std::string note;
  std::string digest;  // of the machine code that ran, empty for a peer's kernel
  std::string driver;  // of the device, as in EvidenceRecord; may be empty
};

// Fitted cost parameters of a kernel on a device.
struct FittedCost {
  std::string kernel;
  std::string device;
  CostParams params;
};

struct Records {
  std::vector<EvidenceRecord> evidence;
  std::vector<Measurement> measurements;
  std::vector<FittedCost> costs;
};

// The best evidence that still holds for a kernel: records whose digest differs from `digest` count as built.
Evidence evidence_of(const Records& records, std::string_view kernel, std::string_view device, bool built,
                     std::string_view digest);

// The failure that a probe of this machine code on this device recorded last; empty if it passed or none was run.
std::string probe_failure(const Records& records, std::string_view kernel, std::string_view device,
                          std::string_view digest);

// Records compiled into the library (data/measurements, data/costs).
const Records& known_records();
// Reads records from JSON ("tetrad.records/1.0"), appends them. Errors (input) name field, need and have.
Status read_records(std::string_view json, std::string_view file_name, Records& into);
std::string records_to_json(const Records& records);
// The schema that records_to_json writes. read_records takes later minor versions too, and leaves out what it does not
// know: such a file must not be written over.
std::string_view records_schema();

// Adds `more`, newest last. A later record replaces an earlier one of the same kernel, machine code, device, driver and
// kind of evidence; a later timing that of the same kernel, machine code, device, driver and problem.
void merge_records(Records& into, const Records& more);
// Without the records of `device` that were made under another driver (another CPU): they say nothing here.
Records records_here(Records records, std::string_view device, std::string_view driver);

}  // namespace tetrad
