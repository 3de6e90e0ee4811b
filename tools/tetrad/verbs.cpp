// THE list of verbs.
#include "cli.hpp"

namespace tetrad::cli {

#define TETRAD_VERB(name) Verb verb_##name();
#include "verb_list.inc"
#undef TETRAD_VERB

const std::vector<Verb>& verbs() {
#define TETRAD_VERB(name) verb_##name(),
  static const std::vector<Verb> list = {
#include "verb_list.inc"
  };
#undef TETRAD_VERB
  return list;
}

}  // namespace tetrad::cli
