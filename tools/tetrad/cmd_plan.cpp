// tetrad plan PROBLEM
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli.hpp"
#include "core/text.hpp"
#include "device_arg.hpp"
#include "record_file.hpp"
#include "tetrad/host.hpp"
#include "tetrad/kernels.hpp"
#include "tetrad/plan.hpp"

namespace tetrad::cli {
namespace {

struct Flags {
  std::string problem;
  std::string m;
  std::string n;
  std::string k;
  std::string device;
  std::string acc;
  std::string force;
  std::vector<std::string> exclude;
  std::string records;
  bool deterministic = false;
};

// The problem's words, then those of the flags: a word given twice is the parser's error.
std::string problem_text(const Flags& flags) {
  std::string text = flags.problem;
  const auto add = [&](const char* word, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}{}{}", text.empty() ? "" : " ", word, value);
  };
  add("m=", flags.m);
  add("n=", flags.n);
  add("k=", flags.k);
  add("acc=", flags.acc);
  return text;
}

Result<DeviceProfile> device_of(const Context& context, const std::string& name) {
  const std::string word = core::lower(name);
  if (word.empty() || word == "host" || word == "cpu") return host_device(measure_host());
  return device_named(context, name);
}

// One question about one problem, with what this session knows.
struct Asked {
  ProblemSet problem;
  DeviceProfile device;
  PlanOptions options;
  Records records;

  Result<Plan> plan(Question question) const {
    PlanOptions with = options;
    with.question = question;
    return make_plan(problem, device, Software{}, kernel_candidates(), records, with);
  }
};

bool runs_somewhere(const Plan& plan) {
  for (const Choice& choice : plan.choices) {
    if (!choice.kernel.empty()) return true;
  }
  return false;
}

bool same_choices(const Plan& a, const Plan& b) {
  for (std::size_t i = 0; i < a.choices.size(); ++i) {
    if (a.choices[i].kernel != b.choices[i].kernel) return false;
  }
  return a.choices.size() == b.choices.size();
}

// "20 kernels: 17 TP0104 not_built, 3 TP0201 target_mismatch": the first asked m's verdicts, counted.
std::string counted_reasons(const Plan& plan) {
  std::vector<std::pair<Reason, int>> counts;
  for (const Considered& considered : plan.choices.front().considered) {
    const Reason reason = considered.verdict.reason;
    const auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == reason; });
    if (found == counts.end()) {
      counts.emplace_back(reason, 1);
    } else {
      ++found->second;
    }
  }
  std::string text = fmt::format("{} kernels:", plan.choices.front().considered.size());
  for (const auto& [reason, count] : counts) {
    text += fmt::format("{} {} {} {}", text.back() == ':' ? "" : ",", count, id(reason), name(reason));
  }
  return text;
}

nlohmann::json plan_document(const Result<Plan>& plan) {
  if (!plan) {
    const Error& error = plan.error();
    return {{"error", {{"id", error.id}, {"what", error.what}, {"need", error.need}, {"have", error.have}}}};
  }
  nlohmann::json out = nlohmann::json::parse(to_json(*plan));
  out.erase("schema");
  return out;
}

// What this build can do on a device whose plan is shown as `if built`.
std::string this_build_text(const Result<Plan>& plan) {
  if (!plan) return fmt::format("{} (need {}, have {})", plan.error().what, plan.error().need, plan.error().have);
  if (!runs_somewhere(*plan)) return "no kernel can be launched there\n          " + counted_reasons(*plan);
  return "see above";
}

int show_here(Context& context, const Asked& asked) {
  const Result<Plan> here = asked.plan(Question::this_build);
  if (!here) return report(context, here.error());
  const Result<Plan> later = asked.plan(Question::if_built);
  const bool runs = runs_somewhere(*here);
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.plan/1.0");
    out["present"] = true;
    out["this_build"] = plan_document(here);
    out["if_built"] = plan_document(later);
    print_json(out);
    return runs ? kOk : kUnavailable;
  }
  std::string text = to_text(*here, context.verbosity > 0);
  if (later && same_choices(*here, *later)) {
    text += "\nif built  the same choices: no declared row would be faster on this device\n";
  } else if (later) {
    text += "\n" + to_text(*later, context.verbosity > 0);
  }
  print(text);
  if (runs) return kOk;
  Error error;
  error.kind = ErrorKind::unavailable;
  error.id = "TE0504";
  error.what = "no kernel of this build can run the problem on this device";
  error.need = "an eligible kernel";
  error.have = counted_reasons(*here);
  error.hint = "tetrad kernels";
  return report(context, error);
}

int show_elsewhere(Context& context, const Asked& asked) {
  const Result<Plan> later = asked.plan(Question::if_built);
  if (!later) return report(context, later.error());
  const Result<Plan> here = asked.plan(Question::this_build);
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.plan/1.0");
    out["present"] = false;
    out["this_build"] = plan_document(here);
    out["if_built"] = plan_document(later);
    print_json(out);
    return kOk;
  }
  print(to_text(*later, context.verbosity > 0) + fmt::format("\nthis build\n          {}\n", this_build_text(here)));
  return kOk;
}

int plan(Context& context, const Flags& flags) {
  Result<ProblemSet> problem = parse_problem(problem_text(flags));
  if (!problem) return report(context, problem.error());
  Result<DeviceProfile> device = device_of(context, flags.device);
  if (!device) return report(context, device.error());
  Result<Records> records = session_records(flags.records);
  if (!records) return report(context, records.error());
  Asked asked{std::move(*problem), std::move(*device), {}, std::move(*records)};
  asked.options.force = flags.force;
  asked.options.exclude = flags.exclude;
  asked.options.deterministic = flags.deterministic;
  if (!flags.force.empty()) warn(context, flags.force + " is forced; no other kernel is considered");
  return asked.device.host ? show_here(context, asked) : show_elsewhere(context, asked);
}

}  // namespace

Verb verb_plan() {
  Verb verb;
  verb.name = "plan";
  verb.group = "Choose and run";
  verb.summary = "The kernel for a problem, and why not the others";
  verb.examples =
      "tetrad plan \"m1,16,64,256,1024,4096 n34816 k5120 a=bf16 w=nvfp4 out=bf16\" --device gb10\n"
      "tetrad plan \"m1,64 n4096 k4096\"\n"
      "tetrad plan --m 8 --n 4096 --k 4096 --device h200 --acc w4a16\n"
      "tetrad plan \"m64 n8192 k8192\" --device rtx-5090 --exclude 'vendor_*'";
  verb.add = [](CLI::App& app) -> Action {
    auto flags = std::make_shared<Flags>();
    app.add_option("PROBLEM", flags->problem, "Problem text, like \"m1,16 n4096 k4096 a=bf16 w=nvfp4 out=bf16\"");
    app.add_option("--m", flags->m, "Rows of activations, one or several: 1,16,64");
    app.add_option("--n", flags->n, "Rows of the weights");
    app.add_option("--k", flags->k, "Length of the sums, a multiple of 16");
    app.add_option("--device", flags->device, "Device to plan for; without it this machine's cpu, measured");
    app.add_option("--acc", flags->acc, "Least precise activations allowed: w4a16, w4a8 or w4a4");
    app.add_option("--force", flags->force, "Choose this kernel; an error with its verdict where it cannot run");
    app.add_option("--exclude", flags->exclude, "Leave out a kernel or a pattern ('vendor_*'); repeatable")
        ->take_all()
        ->expected(1);
    app.add_option("--records", flags->records, "File of records of run and bench [env: TETRAD_RECORDS]")
        ->type_name("FILE");
    app.add_flag("--deterministic", flags->deterministic, "Only kernels that give the same bits twice");
    return [flags](Context& context) { return plan(context, *flags); };
  };
  return verb;
}

}  // namespace tetrad::cli
