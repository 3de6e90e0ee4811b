// tetrad quantize IN OUT: makes an NVFP4 checkpoint from a dense one.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cli.hpp"
#include "core/text.hpp"
#include "tetrad/checkpoint.hpp"

namespace tetrad::cli {
namespace {

struct Options {
  std::string in;
  std::string out;
  std::string method = "rtn";
  std::string convention = "compressed-tensors";
  std::string scheme = "w4a16";
  std::vector<std::string> ignore;
  std::string input_amax;
  int threads = 0;
};

std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

// INT and TERM stop the work between two pieces; what was written is removed before the program ends by the signal.
class StopOnSignal {
 public:
  StopOnSignal() {
    struct sigaction action {};
    action.sa_handler = [](int number) { g_signal = number; };
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~StopOnSignal() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

Error bad_word(std::string_view what, const std::string& word, const std::vector<std::string>& known) {
  return Error{.kind = ErrorKind::usage,
               .id = "TE0249",
               .what = fmt::format("unknown {} '{}'", what, word),
               .where = {},
               .need = fmt::format("{}", fmt::join(known, ", ")),
               .have = word,
               .causes = {},
               .hint = core::did_you_mean(word, known)};
}

Error bad_amax(const std::string& file, std::string what, std::string need, std::string have) {
  return Error{.kind = ErrorKind::input,
               .id = "TE0244",
               .what = std::move(what),
               .where = file,
               .need = std::move(need),
               .have = std::move(have),
               .causes = {},
               .hint = "tetrad run --record-amax FILE writes such a file"};
}

// {"layer": amax, ...}, as tetrad run --record-amax writes it.
Result<std::map<std::string, float>> read_input_amax(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf()))
    return bad_amax(file, "cannot read the file", "a readable JSON file", "none");
  const nlohmann::json json = nlohmann::json::parse(text.str(), nullptr, false);
  if (!json.is_object())
    return bad_amax(file, "the file is not a JSON object", "layer -> amax of its input", "other text");
  std::map<std::string, float> out;
  for (const auto& [layer, value] : json.items()) {
    if (!value.is_number()) {
      return bad_amax(fmt::format("{}: '{}'", file, layer), "an amax is no number", "a number", value.type_name());
    }
    out[layer] = value.get<float>();
  }
  return out;
}

Result<QuantizeOptions> make_options(const Options& words) {
  QuantizeOptions options;
  const std::optional<QuantMethod> method = parse_quant_method(words.method);
  if (!method) return bad_word("method", words.method, {"rtn", "four-over-six", "search"});
  const std::optional<Convention> convention = parse_convention(words.convention);
  if (!convention) return bad_word("convention", words.convention, {"compressed-tensors", "modelopt"});
  const std::optional<Scheme> scheme = parse_scheme(words.scheme);
  if (!scheme) return bad_word("scheme", words.scheme, {"w4a16", "w4a4"});
  options.method = *method;
  options.convention = *convention;
  options.scheme = *scheme;
  options.ignore = words.ignore;
  options.threads = words.threads;
  if (!words.input_amax.empty()) {
    Result<std::map<std::string, float>> amax = read_input_amax(words.input_amax);
    if (!amax) return amax.error();
    options.input_amax = std::move(*amax);
  }
  return options;
}

double rate(const QuantizeReport& result) {
  return result.seconds > 0.0 ? static_cast<double>(result.bytes_in) / result.seconds : 0.0;
}

void print_text(const Context& context, const Options& words, const QuantizeReport& result) {
  Table table({{"LAYER", false, true}, {"n", true}, {"k", true}, {"REL. MSE", true}, {"OVER 4", true}});
  double sum = 0.0;
  for (const QuantizeReport::Layer& layer : result.layers) {
    sum += layer.relative_mse;
    table.row({layer.name, std::to_string(layer.rows), std::to_string(layer.k),
               fmt::format("{:.5f}", layer.relative_mse),
               words.method == "four-over-six" ? fmt::format("{:.0f} %", 100.0 * layer.over_four_share) : "-"});
  }
  std::string out = table.text(context);
  if (!result.ignored.empty()) {
    out += fmt::format("\nleft as they are: {}\n", result.ignored.size());
    constexpr std::size_t kShown = 12;
    for (std::size_t i = 0; i < result.ignored.size() && (i < kShown || context.verbosity > 0); ++i) {
      out += "  " + result.ignored[i] + "\n";
    }
    if (result.ignored.size() > kShown && context.verbosity <= 0) {
      out += fmt::format("  and {} more (-v lists all)\n", result.ignored.size() - kShown);
    }
  }
  out += fmt::format("\nwritten      {} ({}, {}, {})\n", words.out, words.convention, words.scheme, words.method);
  out += fmt::format("layers       {}, mean relative MSE {:.5f}\n", result.layers.size(),
                     sum / static_cast<double>(result.layers.size()));
  out += fmt::format("size         {} -> {}\n", bytes_text(static_cast<double>(result.bytes_in)),
                     bytes_text(static_cast<double>(result.bytes_out)));
  out += fmt::format("time         {}, {:.0f} MB/s of input\n", time_text(result.seconds), rate(result) / 1e6);
  print(out);
}

void print_document(const Context& context, const Options& words, const QuantizeReport& result) {
  nlohmann::json out = document(context, "tetrad.quantize/1.0");
  out["out"] = words.out;
  out["method"] = words.method;
  out["convention"] = words.convention;
  out["scheme"] = words.scheme;
  out["bytes_in"] = result.bytes_in;
  out["bytes_out"] = result.bytes_out;
  out["time_s"] = result.seconds;
  out["input_bytes_per_s"] = rate(result);
  out["layers"] = nlohmann::json::array();
  for (const QuantizeReport::Layer& layer : result.layers) {
    out["layers"].push_back({{"name", layer.name},
                             {"n", layer.rows},
                             {"k", layer.k},
                             {"relative_mse", layer.relative_mse},
                             {"over_four_share", layer.over_four_share}});
  }
  out["ignored"] = result.ignored;
  out["unmatched_ignore"] = result.unmatched_ignore;
  print_json(out);
}

int quantize(const Context& context, const Options& words) {
  Result<QuantizeOptions> options = make_options(words);
  if (!options) return report(context, options.error());
  Result<QuantizeReport> result = Error{};
  {
    const StopOnSignal stop;
    Progress progress(context, "quantize");
    std::string current;
    options->progress = [&](std::uint64_t done, std::uint64_t total, std::string_view item) {
      if (!current.empty() && item != current) progress.item_done(current);
      current = item;
      progress.update(done, total, item);
      if (done == total) progress.item_done(current);
    };
    options->cancelled = [] { return g_signal != 0; };
    result = quantize_checkpoint(words.in, words.out, *options);
  }
  if (g_signal != 0 && !result) {
    report(context, result.error());
    ::raise(g_signal);
    return 128 + g_signal;
  }
  if (!result) return report(context, result.error());
  for (const std::string& pattern : result->unmatched_ignore) {
    warn(context, fmt::format("--ignore '{}' matches no weight", pattern));
  }
  if (context.json) {
    print_document(context, words, *result);
  } else {
    print_text(context, words, *result);
  }
  return kOk;
}

}  // namespace

Verb verb_quantize() {
  Verb verb;
  verb.name = "quantize";
  verb.group = "Write files";
  verb.summary = "Make an NVFP4 checkpoint from a dense one";
  verb.examples =
      "tetrad quantize model model-nvfp4\n"
      "tetrad quantize model model-nvfp4 --method search --ignore \"*.down_proj\"\n"
      "tetrad run model-nvfp4 --activations x.safetensors --record-amax amax.json\n"
      "tetrad quantize model model-w4a4 --scheme w4a4 --input-amax amax.json";
  verb.add = [](CLI::App& app) -> Action {
    auto options = std::make_shared<Options>();
    app.add_option("IN", options->in, "Dense checkpoint: folder or .safetensors file (BF16, F16, F32)")->required();
    app.add_option("OUT", options->out, "Folder to make; must not exist")->required();
    app.add_option("--method", options->method,
                   "Block scales: rtn (amax/6), four-over-six, search (least squared error) [default: rtn]");
    app.add_option("--convention", options->convention,
                   "Names and config: compressed-tensors, modelopt [default: compressed-tensors]");
    app.add_option("--scheme", options->scheme, "w4a16 (weights alone) or w4a4 (needs --input-amax) [default: w4a16]");
    app.add_option("--ignore", options->ignore,
                   "Module to leave as it is: exact, * and ?, or re:REGEX; may be repeated [default: none]")
        ->allow_extra_args(false);
    app.add_option("--input-amax", options->input_amax,
                   "JSON file: layer -> largest magnitude of its input, as tetrad run --record-amax writes it");
    app.add_option("--threads", options->threads, "Threads, 0 = all cores [default: 0]")->check(CLI::Range(0, 4096));
    return [options](Context& context) { return quantize(context, *options); };
  };
  return verb;
}

}  // namespace tetrad::cli
