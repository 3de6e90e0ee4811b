// Problem text: a text that parses must print as a text that parses to an equal set and prints the same; every refusal
// is a usage error with an id and a need.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tetrad/problem.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const tetrad::Result<tetrad::ProblemSet> set = tetrad::parse_problem(text);
  if (!set) {
    const tetrad::Error& error = set.error();
    if (error.kind != tetrad::ErrorKind::usage || error.id.empty() || error.need.empty()) std::abort();
    return 0;
  }
  const std::string canonical = tetrad::to_text(*set);
  const tetrad::Result<tetrad::ProblemSet> again = tetrad::parse_problem(canonical);
  if (!again || !(*again == *set) || tetrad::to_text(*again) != canonical) std::abort();
  const tetrad::Result<tetrad::ProblemSet> one = tetrad::parse_problem(tetrad::to_text(set->base));
  if (!one || !(one->base == set->base) || one->m.size() != 1) std::abort();
  return 0;
}
