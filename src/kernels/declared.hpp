// The GPU rows of the table: described, not compiled into this build (internal).
#pragma once

#include <vector>

#include "tetrad/candidate.hpp"

namespace tetrad {

// Candidates for the planner, best-known order, behind the CPU rows of the table. Shared memory and cost parameters
// name their source; what nobody measured says "assumed: ...".
std::vector<Candidate> declared_candidates();

}  // namespace tetrad
