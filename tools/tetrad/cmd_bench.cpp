// tetrad bench PROBLEM|FILE: verifies, then times, every eligible built kernel against the roof of the same run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>

#include "cli.hpp"
#include "measure.hpp"
#include "record_file.hpp"
#include "svg.hpp"
#include "verb_common.hpp"

namespace tetrad::cli {
namespace {

constexpr std::uint64_t kSeed = 20251129;
constexpr std::int64_t kMinRuns = 5;
// Copies of the weights are rotated until together they are this many times the last cache.
constexpr double kColdFactor = 3.0;
constexpr std::int64_t kMaxCopies = 4096;

struct Options {
  std::string what;
  std::vector<std::string> kernels;
  std::string m;
  std::string format = "markdown";
  std::string svg;
  std::string out;
  std::string record;
  int threads = 0;
  double min_time = 0.2;
};

struct Row {
  Problem problem;
  std::string kernel;
  measure::Checked checked;
  measure::Timing timing;  // no runs where the result was wrong
  double bytes = 0.0;
  Unit unit = Unit::fp32;
  bool cached = false;  // all copies of the weights together may stay in the last cache
  measure::RoofTime roof;
};

struct Host {
  HostRoof roof;
  DeviceProfile device;
};

bool right(const Row& row) { return row.checked.report.judgement == Judgement::pass; }

// Problems of a file: one text per line, # begins a comment.
Result<std::vector<ProblemSet>> read_problems(const Options& options) {
  std::vector<ProblemSet> sets;
  std::error_code code;
  const bool path = options.what.find('/') != std::string::npos || options.what.ends_with(".txt");
  const bool there = std::filesystem::exists(options.what, code);
  if (there ? std::filesystem::is_directory(options.what, code) : path) {
    return Error{ErrorKind::input,
                 "TE0661",
                 "the file cannot be read",
                 options.what,
                 "a file with a problem text a line",
                 there ? "a folder" : "no such file",
                 {},
                 ""};
  }
  if (!there) {
    Result<ProblemSet> set = parse_problem(options.what);
    if (!set) return set.error();
    sets.push_back(std::move(*set));
  } else {
    std::ifstream file(options.what, std::ios::binary);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      line.erase(std::min(line.find('#'), line.size()));
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      Result<ProblemSet> set = parse_problem(line);
      if (!set) {
        Error error = set.error();
        error.where = fmt::format("{}:{}{}{}", options.what, number, error.where.empty() ? "" : ", ", error.where);
        return error;
      }
      sets.push_back(std::move(*set));
    }
    if (sets.empty()) {
      return Error{ErrorKind::input,
                   "TE0668",
                   "the file holds no problem",
                   options.what,
                   "a problem text a line",
                   "none",
                   {},
                   ""};
    }
  }
  if (!options.m.empty()) {
    const Result<std::vector<std::int64_t>> list = parse_m_list(options.m);
    if (!list) return list.error();
    for (ProblemSet& set : sets) {
      set.m = *list;
      set.base.m = list->front();
    }
  }
  return sets;
}

// Kernels to time for each m: the asked ones, or every eligible one with code.
Result<std::map<std::string, std::vector<std::int64_t>>> kernels_for(const Options& options, const Host& host,
                                                                     const ProblemSet& set) {
  std::map<std::string, std::vector<std::int64_t>> result;
  for (const std::string& kernel : options.kernels) {
    const Result<Plan> plan = measure::plan_here(set, host.device, kernel, true);
    if (!plan) return plan.error();
    result[kernel] = set.m;
  }
  if (!options.kernels.empty()) return result;
  const Result<Plan> plan = measure::plan_here(set, host.device, "", true);
  if (!plan) return plan.error();
  for (const Choice& choice : plan->choices) {
    for (const Considered& considered : choice.considered) {
      const KernelDescriptor* descriptor = find_kernel(considered.kernel);
      if (considered.verdict.eligible() && descriptor != nullptr && descriptor->bind != nullptr) {
        result[considered.kernel].push_back(choice.m);
      }
    }
  }
  return result;
}

// Weights of one problem, copied until they leave the last cache, and one kernel bound to each copy.
class Cold {
 public:
  static Result<Cold> make(const KernelDescriptor& kernel, const std::vector<QuantizedTensor>& weights,
                           std::int64_t copies) {
    Cold cold;
    for (std::int64_t c = 0; c < copies; ++c) {
      std::vector<QuantizedTensor> views;
      for (const QuantizedTensor& weight : weights) {
        if (c == 0) {
          views.push_back(weight);
        } else {
          cold.memory_.push_back(measure::copy(weight));
          views.push_back(cold.memory_.back().view());
        }
      }
      Result<std::unique_ptr<BoundKernel>> bound = kernel.bind(views);
      if (!bound) return bound.error();
      cold.bound_.push_back(std::move(*bound));
    }
    return cold;
  }
  BoundKernel& next(std::int64_t run) { return *bound_[static_cast<std::size_t>(run) % bound_.size()]; }

 private:
  std::vector<measure::Weights> memory_;
  std::vector<std::unique_ptr<BoundKernel>> bound_;
};

// Bytes of one copy of the weights.
double weight_bytes(const Problem& problem) {
  Problem weights = problem;
  weights.m = 0;
  return measure::minimal_bytes(weights);
}

std::int64_t copies_for(const Problem& problem, const DeviceProfile& host) {
  const auto cache = static_cast<double>(measure::cache_bytes(host));
  const double bytes = weight_bytes(problem);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kColdFactor * cache / bytes) + 1, 1, kMaxCopies);
}

Status bench_set(Context& context, const Options& options, const Host& host, const ProblemSet& set,
                 std::vector<Row>& rows) {
  const auto kernels = kernels_for(options, host, set);
  if (!kernels) return kernels.error();
  const Result<measure::RandomOperands> random =
      measure::RandomOperands::make(set.base, set.m.back(), kSeed, options.threads);
  if (!random) return random.error();
  Progress progress(context, "bench");
  std::uint64_t done_kernels = 0;
  for (const KernelDescriptor& descriptor : kernel_table()) {
    const auto wanted = kernels->find(descriptor.candidate.name);
    if (wanted == kernels->end()) continue;
    progress.update(done_kernels++, kernels->size(), wanted->first);
    const std::int64_t copies = copies_for(set.base, host.device);
    const bool cached =
        static_cast<double>(copies) * weight_bytes(set.base) <= static_cast<double>(measure::cache_bytes(host.device));
    Result<Cold> cold = Cold::make(descriptor, random->view(1).weights, copies);
    if (!cold) return cold.error();
    for (const std::int64_t m : wanted->second) {
      Row row;
      row.problem = set.base;
      row.problem.m = m;
      row.kernel = wanted->first;
      row.bytes = measure::minimal_bytes(row.problem);
      row.unit = descriptor.candidate.unit;
      row.cached = cached;
      const measure::Operands operands = random->view(m);
      measure::Dense y(row.problem.out, m, row.problem.n);
      const MatmulArgs args = operands.args(y.view(), options.threads);
      if (Status done = cold->next(0).launch(args); !done) return done;
      Result<measure::Checked> checked =
          measure::check(descriptor.candidate, operands, std::as_const(y).view(), options.threads);
      if (!checked) return checked.error();
      row.checked = std::move(*checked);
      if (right(row)) {
        Result<measure::Timing> timing = measure::time_calls(
            options.min_time, kMinRuns, [&](std::int64_t run) { return cold->next(run + 1).launch(args); });
        if (!timing) return timing.error();
        row.timing = *timing;
      }
      rows.push_back(std::move(row));
    }
  }
  return ok();
}

double per_second(const Row& row, double amount) { return row.timing.runs > 0 ? amount / row.timing.median_s : 0.0; }

std::string markdown(const std::vector<Row>& rows, const HostRoof& roof) {
  std::string out = fmt::format(
      "Host: {:.1f} GB/s read ({}), {:.0f} GFLOP/s fp32 and {:.0f} GOP/s int8 multiply-add, {} threads, {}.\n",
      roof.read_bytes_per_s * 1e-9, roof.read_kernel, roof.fma_flops_per_s * 1e-9, roof.int8_ops_per_s * 1e-9,
      roof.threads, roof.isa);
  out += "Medians; spread is p10 to p90. Weights are cold. Roof: read bandwidth (m), fp32 (f) or int8 (i) rate.\n";
  const Problem* last = nullptr;
  for (const Row& row : rows) {
    if (last == nullptr || last->n != row.problem.n || last->k != row.problem.k || last->groups != row.problem.groups) {
      Problem title = row.problem;
      title.m = 1;
      out += fmt::format("\n`{}`\n\n", to_text(title).substr(3));
      out +=
          "|    m | kernel             |       time | spread                |  GB/s | GFLOP/s | % roof | verified |\n";
      out +=
          "|-----:|:-------------------|-----------:|:----------------------|------:|--------:|-------:|:---------|\n";
    }
    last = &row.problem;
    const bool timed = row.timing.runs > 0;
    out += fmt::format("| {:>4} | {:<18} | {:>10} | {:<21} | {:>5.1f} | {:>7.1f} | {:>5.0f}{} | {:<8} |\n",
                       row.problem.m, row.kernel, timed ? time_text(row.timing.median_s) : "-",
                       timed ? fmt::format("{} to {}", time_text(row.timing.low_s), time_text(row.timing.high_s)) : "-",
                       per_second(row, row.bytes) * 1e-9, per_second(row, flops(row.problem)) * 1e-9,
                       100.0 * per_second(row, row.roof.seconds), measure::letter(row.roof),
                       measure::word(row.checked.report.judgement));
  }
  std::map<std::string, std::size_t> compared;
  for (const Row& row : rows) ++compared[row.checked.compared];
  out += "\n";
  for (const auto& [text, count] : compared) out += fmt::format("Verified over {}: {} rows.\n", text, count);
  return out;
}

std::string csv(const std::vector<Row>& rows) {
  std::string out =
      "problem,m,n,k,kernel,time_ns,time_p10_ns,time_p90_ns,runs,bytes,bytes_per_s,flop_per_s,roof_time_ns,roof_by,"
      "roof_share,judgement,bound_ratio,compared\n";
  for (const Row& row : rows) {
    out +=
        fmt::format("{},{},{},{},{},{:.1f},{:.1f},{:.1f},{},{:.0f},{:.6g},{:.6g},{:.1f},{},{:.4f},{},{:.4g},\"{}\"\n",
                    to_text(row.problem), row.problem.m, row.problem.n, row.problem.k, row.kernel,
                    row.timing.median_s * 1e9, row.timing.low_s * 1e9, row.timing.high_s * 1e9, row.timing.runs,
                    row.bytes, per_second(row, row.bytes), per_second(row, flops(row.problem)), row.roof.seconds * 1e9,
                    measure::limit(row.roof), per_second(row, row.roof.seconds),
                    measure::word(row.checked.report.judgement), row.checked.report.worst_ratio, row.checked.compared);
  }
  return out;
}

nlohmann::json to_json(Context& context, const std::vector<Row>& rows, const HostRoof& roof) {
  nlohmann::json out = document(context, "tetrad.bench/2.0");
  put_roof(out, roof);
  out["rows"] = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json item = {{"problem", to_text(row.problem)},
                           {"m", row.problem.m},
                           {"n", row.problem.n},
                           {"k", row.problem.k},
                           {"kernel", row.kernel}};
    put_timing(item, row.timing);
    item["bytes"] = row.bytes;
    item["bytes_per_s"] = per_second(row, row.bytes);
    item["flop_per_s"] = per_second(row, flops(row.problem));
    item["roof_time_ns"] = row.roof.seconds * 1e9;
    item["roof_by"] = measure::limit(row.roof);
    item["roof_share"] = per_second(row, row.roof.seconds);
    put_check(item, row.checked);
    out["rows"].push_back(std::move(item));
  }
  return out;
}

// A panel per set of problems; `ends` holds where each set's rows end.
std::string plot(const std::vector<Row>& all, const std::vector<std::size_t>& ends) {
  std::vector<svg::Panel> panels;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const std::span<const Row> rows(all.data() + begin, end - begin);
    begin = end;
    if (rows.empty()) continue;
    svg::Panel panel;
    panel.title = fmt::format("n {}  k {}", rows.front().problem.n, rows.front().problem.k);
    panel.x_label = "m (rows of activations)";
    panel.y_label = "median time per call";
    std::map<std::string, std::map<std::int64_t, double>> roofs;
    for (const Row& row : rows) {
      if (panel.series.empty() || panel.series.back().name != row.kernel)
        panel.series.push_back({row.kernel, {}, false});
      if (row.timing.runs > 0) panel.series.back().points.emplace_back(row.problem.m, row.timing.median_s);
      roofs[fmt::format("roof, {}", name(row.roof.unit))][row.problem.m] = row.roof.seconds;
    }
    for (const auto& [title, roof] : roofs) panel.series.push_back({title, {roof.begin(), roof.end()}, true});
    panels.push_back(std::move(panel));
  }
  return svg::render(panels);
}

// Evidence of every row, and the times of those that used the whole host. A row that is wrong outlives the right ones.
Records records_of(const Context& context, const Host& host, const std::vector<Row>& rows, bool timed) {
  Records right_rows;
  Records failed;
  for (const Row& row : rows) {
    const Evidence evidence = timed ? Evidence::measured : Evidence::probed;
    const EvidenceRecord record = evidence_record(context, host.device, row.kernel, evidence, row.checked, row.problem);
    if (timed && right(row)) {
      Measurement time;
      time.kernel = row.kernel;
      time.device = host.device.slug;
      time.problem = row.problem;
      time.seconds = row.timing.median_s;
      time.source = fmt::format("tetrad bench, {}", record.date);
      time.digest = record.digest;
      time.driver = record.driver;
      right_rows.measurements.push_back(std::move(time));
    }
    (right(row) ? right_rows : failed).evidence.push_back(record);
  }
  Records all;
  merge_records(all, right_rows);
  merge_records(all, failed);
  return all;
}

int bench(Context& context, const Options& options) {
  const Result<std::vector<ProblemSet>> sets = read_problems(options);
  if (!sets) return report(context, sets.error());
  for (const std::string& path : {options.out, options.svg, options.record}) {
    if (path.empty()) continue;
    if (Status can = measure::check_output(path); !can) return report(context, can.error());
  }
  if (!options.record.empty()) {
    if (Status can = check_record_file(options.record); !can) return report(context, can.error());
  }
  for (const std::string& kernel : options.kernels) warn(context, fmt::format("kernel {} is forced", kernel));
  Host host;
  host.roof = measure_host(options.threads);
  host.device = host_device(host.roof);
  std::vector<Row> rows;
  std::vector<std::size_t> ends;
  for (const ProblemSet& set : *sets) {
    if (Status done = bench_set(context, options, host, set, rows); !done) return report(context, done.error());
    ends.push_back(rows.size());
  }
  settle_roof(rows, host.roof, options.threads);
  if (!options.record.empty()) {
    const bool all_threads = host.roof.threads == host.device.sms.value.value_or(0);
    if (!all_threads) warn(context, "times with fewer threads than the host has are not recorded, only their results");
    const Status added = add_records(options.record, records_of(context, host, rows, all_threads));
    if (!added) return report(context, added.error());
  }
  const std::string format = context.json ? "json" : options.format;
  const std::string text = format == "json"  ? to_json(context, rows, host.roof).dump(2) + "\n"
                           : format == "csv" ? csv(rows)
                                             : markdown(rows, host.roof);
  if (!options.svg.empty()) {
    if (Status done = measure::write_file(options.svg, plot(rows, ends)); !done) return report(context, done.error());
  }
  if (options.out.empty()) {
    print(text);
  } else if (Status done = measure::write_file(options.out, text); !done) {
    return report(context, done.error());
  }
  return std::all_of(rows.begin(), rows.end(), right) ? kOk : kWrongResult;
}

}  // namespace

Verb verb_bench() {
  Verb verb;
  verb.name = "bench";
  verb.group = "Measure";
  verb.summary = "Verify and time problems; table, CSV, JSON, SVG";
  verb.examples =
      "tetrad bench \"m1,8,64,512 n4096 k14336\"\n"
      "tetrad bench bench/shapes/minilm.txt --format csv --out times.csv --svg times.svg";
  verb.add = [](CLI::App& app) -> Action {
    auto options = std::make_shared<Options>();
    app.add_option("WHAT", options->what, "A problem text, or a file with one a line")->required();
    app.add_option("--kernel", options->kernels, "Time this kernel; may be repeated (default: all eligible)")
        ->type_name("KERNEL");
    app.add_option("--m", options->m, "Rows of activations instead of the problem's, e.g. 1,16")->type_name("LIST");
    app.add_option("--format", options->format, "markdown, csv or json")
        ->type_name("FORMAT")
        ->check(CLI::IsMember({"markdown", "csv", "json"}));
    app.add_option("--svg", options->svg, "Also plot time and roof over m")->type_name("FILE");
    app.add_option("--out", options->out, "Write there instead of stdout")->type_name("FILE");
    app.add_option("--record", options->record, "Also add results and times to this file of records")
        ->type_name("FILE");
    app.add_option("--threads", options->threads, "Threads (default all)")->type_name("N")->check(CLI::Range(0, 4096));
    app.add_option("--min-time", options->min_time, "Seconds of timed calls per row (default 0.2)")
        ->type_name("S")
        ->check(CLI::Range(0.0, 3600.0))
        ->check([](const std::string& text) {  // a range holds for NaN
          return CLI::detail::to_lower(text).find("nan") == std::string::npos ? "" : "not a number of seconds: " + text;
        });
    return [options](Context& context) { return bench(context, *options); };
  };
  return verb;
}

}  // namespace tetrad::cli
