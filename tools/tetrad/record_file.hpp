// Files of records: what run and bench saw, for plan and kernels to show.
#pragma once

#include <string>

#include "cli.hpp"
#include "measure.hpp"
#include "tetrad/records.hpp"

namespace tetrad::cli {

// What tells this CPU from others in records: model, features, threads that this process may use.
std::string host_identity(const DeviceProfile& host);

// The records built in and those of `file`; without one, of the file that the environment's TETRAD_RECORDS names, if it
// is there. Records of other CPUs are left out. Errors (input): a named file that cannot be read, a malformed one.
Result<Records> session_records(const std::string& file);

// One judged result of a kernel of this build on this host, as evidence: `measured` where it was timed for a record,
// else `probed`. A result over its bound is the failure.
EvidenceRecord evidence_record(const Context& context, const DeviceProfile& host, const std::string& kernel,
                               Evidence evidence, const measure::Checked& checked, const Problem& problem);

// Before the work: can records be added to the file? Errors (input): malformed, of a later version, not writable.
Status check_record_file(const std::string& path);
// Merges under a lock (FILE.lock), writes beside, syncs, renames: of any number of writers none is lost, and a reader
// sees a whole file.
Status add_records(const std::string& path, const Records& more);

}  // namespace tetrad::cli
