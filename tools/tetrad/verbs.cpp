// THE list of verbs.
#include "cli.hpp"

namespace tetrad::cli {

Verb verb_plan();
Verb verb_run();
Verb verb_kernels();
Verb verb_tiles();
Verb verb_targets();
Verb verb_devices();
Verb verb_bench();
Verb verb_inspect();
Verb verb_binary();
Verb verb_quantize();
Verb verb_explain();
Verb verb_help();

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> list = {verb_plan(),    verb_run(),      verb_kernels(), verb_tiles(),
                                         verb_devices(), verb_bench(),    verb_inspect(), verb_targets(),
                                         verb_binary(),  verb_quantize(), verb_explain(), verb_help()};
  return list;
}

}  // namespace tetrad::cli
