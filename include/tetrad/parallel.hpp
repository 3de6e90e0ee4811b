// Threads of the host. One pool per process, started on first use.
#pragma once

#include <cstdint>
#include <functional>

namespace tetrad {

// Hardware threads this process may use (affinity honoured).
int hardware_threads();

// Calls body(begin, end, worker) over [0, count) in pieces of at least `grain`, from `threads` threads (0 = all; the
// caller is one of them), and returns when all are done. Pieces are handed out dynamically; worker < threads. Nested
// calls run on the calling thread alone. `body` must not throw.
void parallel_for(std::int64_t count, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t begin, std::int64_t end, int worker)>& body);

}  // namespace tetrad
