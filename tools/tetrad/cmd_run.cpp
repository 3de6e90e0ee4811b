// tetrad run PATH|PROBLEM: every NVFP4 layer through the chosen kernel, compared with the exact product.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "cli.hpp"
#include "core/text.hpp"
#include "measure.hpp"
#include "record_file.hpp"
#include "tetrad/checkpoint.hpp"
#include "tetrad/nvfp4.hpp"
#include "verb_common.hpp"

namespace tetrad::cli {
namespace {

constexpr std::uint64_t kSeed = 20251129;
constexpr double kMinSeconds = 0.02;  // of timed calls per row
constexpr std::int64_t kMinRuns = 5;

struct Options {
  std::string what;
  std::string layer = "*";
  std::string m;
  std::string activations;
  std::string kernel;
  std::string source;
  std::string record_amax;
  std::string record;
  std::string records;
  int threads = 0;
};

// One layer with one m through one kernel.
struct Row {
  std::string layer;
  Problem problem;
  std::string kernel;
  measure::Timing timing;
  double bytes = 0.0;
  Unit unit = Unit::fp32;
  bool cached = false;  // the weights may stay in the last cache
  measure::RoofTime roof;
  measure::Checked checked;
  std::optional<double> to_dense;  // relative error against the unquantised weights
};

// What all layers of one invocation share.
struct Host {
  HostRoof roof;
  DeviceProfile device;
  Records records;
};

Error bad_activations(const std::string& file, std::string need, std::string have) {
  return Error{ErrorKind::input,
               "TE0664",
               "the activations do not fit the layer",
               file,
               std::move(need),
               std::move(have),
               {},
               ""};
}

// The tensor of the layer, or the only tensor of the file.
Result<ConstMatrix> activations_of(const Checkpoint& file, const std::string& layer, std::int64_t k) {
  const StoredTensor* tensor = file.find(layer);
  if (tensor == nullptr && file.tensors().size() == 1) tensor = file.tensors().data();
  if (tensor == nullptr) {
    return bad_activations(file.path(), fmt::format("a tensor '{}', or a single tensor", layer),
                           fmt::format("{} tensors of other names", file.tensors().size()));
  }
  Result<ConstMatrix> matrix = dense_matrix(*tensor);
  if (matrix && matrix->cols != k) {
    return bad_activations(fmt::format("{}, {}", file.path(), tensor->name), fmt::format("[rows, {}]", k),
                           fmt::format("[{}, {}]", matrix->rows, matrix->cols));
  }
  return matrix;
}

// Runs one set of weights for every m of the set and appends the rows. `dense` may be null.
Status run_layer(const Options& options, const Host& host, const std::string& layer, const ProblemSet& set,
                 const std::function<measure::Operands(std::int64_t m)>& operands_for, const ConstMatrix* dense,
                 bool has_input_scale, std::vector<Row>& rows) {
  const Result<Plan> plan = measure::plan_here(set, host.device, options.kernel, has_input_scale, host.records);
  if (!plan) return plan.error();
  std::map<std::string, std::unique_ptr<BoundKernel>> bound;
  const std::vector<QuantizedTensor> weights = operands_for(set.m.front()).weights;
  for (const std::int64_t m : set.m) {
    const std::string& name = plan->choices[plan->choice_for(m)].kernel;
    const KernelDescriptor* descriptor = find_kernel(name);
    auto& kernel = bound[name];
    if (kernel == nullptr) {
      Result<std::unique_ptr<BoundKernel>> made = descriptor->bind(weights);
      if (!made) return made.error();
      kernel = std::move(*made);
    }
    Row row;
    row.layer = layer;
    row.problem = set.base;
    row.problem.m = m;
    row.kernel = name;
    row.bytes = measure::minimal_bytes(row.problem);
    row.unit = descriptor->candidate.unit;
    row.cached = measure::stays_in_cache(row.problem, host.device);
    const measure::Operands operands = operands_for(m);
    measure::Dense y(row.problem.out, m, row.problem.n);
    const MatmulArgs args = operands.args(y.view(), options.threads);
    if (Status done = kernel->launch(args); !done) return done;
    Result<measure::Checked> checked =
        measure::check(descriptor->candidate, operands, std::as_const(y).view(), options.threads);
    if (!checked) return checked.error();
    row.checked = std::move(*checked);
    if (dense != nullptr) {
      const measure::Sample sample =
          measure::choose_sample(m, row.problem.n, row.problem.k, measure::kReferenceBudget, kSeed);
      row.to_dense = measure::relative_to_dense(operands.x, *dense, operands.bias, std::as_const(y).view(), sample,
                                                options.threads);
    }
    Result<measure::Timing> timing =
        measure::time_calls(kMinSeconds, kMinRuns, [&](std::int64_t) { return kernel->launch(args); });
    if (!timing) return timing.error();
    row.timing = *timing;
    rows.push_back(std::move(row));
  }
  return ok();
}

Status run_problem(const Options& options, const Host& host, const ProblemSet& set, std::vector<Row>& rows) {
  const Result<measure::RandomOperands> random =
      measure::RandomOperands::make(set.base, set.m.back(), kSeed, options.threads);
  if (!random) return random.error();
  return run_layer(
      options, host, "random weights", set, [&](std::int64_t m) { return random->view(m); }, nullptr, true, rows);
}

// The unquantised weight of a layer, if the source has one that fits.
Result<std::optional<ConstMatrix>> dense_weight(const std::optional<Checkpoint>& source, const NvFp4Layer& layer) {
  if (!source) return std::optional<ConstMatrix>{};
  const StoredTensor* tensor = source->find(layer.name + ".weight");
  if (tensor == nullptr) return std::optional<ConstMatrix>{};
  const Result<ConstMatrix> matrix = dense_matrix(*tensor);
  if (!matrix) return matrix.error();
  if (matrix->rows != layer.weight.rows || matrix->cols != layer.weight.k) {
    return Error{ErrorKind::input,
                 "TE0665",
                 "the source's weight has another shape than the quantised one",
                 layer.name + ".weight",
                 fmt::format("[{}, {}]", layer.weight.rows, layer.weight.k),
                 fmt::format("[{}, {}]", matrix->rows, matrix->cols),
                 {},
                 ""};
  }
  return std::optional<ConstMatrix>(*matrix);
}

Status run_checkpoint(Context& context, const Options& options, const Host& host, std::vector<Row>& rows) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(options.what);
  if (!checkpoint) return checkpoint.error();
  Result<std::vector<NvFp4Layer>> layers = checkpoint->nvfp4_layers();
  if (!layers) return layers.error();
  std::vector<std::string> names;
  for (const NvFp4Layer& layer : *layers) names.push_back(layer.name);
  std::erase_if(*layers, [&](const NvFp4Layer& layer) { return !core::glob_match(options.layer, layer.name); });
  if (layers->empty()) {
    return Error{ErrorKind::input,
                 "TE0666",
                 names.empty() ? "the checkpoint has no NVFP4 layer" : "no NVFP4 layer matches",
                 options.what,
                 names.empty() ? "at least one" : options.layer,
                 names.empty() ? "none" : fmt::format("{} layers, {} the first", names.size(), names.front()),
                 {},
                 fmt::format("tetrad inspect {}", options.what)};
  }
  std::optional<Checkpoint> source;
  std::optional<Checkpoint> activations;
  for (const auto& [path, into] :
       {std::pair{&options.source, &source}, std::pair{&options.activations, &activations}}) {
    if (path->empty()) continue;
    Result<Checkpoint> opened = Checkpoint::open(*path);
    if (!opened) return opened.error();
    into->emplace(std::move(*opened));
  }
  ProblemSet asked;
  asked.m = {1, 64};
  if (!options.m.empty()) {
    Result<std::vector<std::int64_t>> list = parse_m_list(options.m);
    if (!list) return list.error();
    asked.m = std::move(*list);
  }
  nlohmann::json amax = nlohmann::json::object();
  Progress progress(context, "run");
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const NvFp4Layer& layer = (*layers)[i];
    progress.update(i, layers->size(), layer.name);
    ProblemSet set = asked;
    set.base.n = layer.weight.rows;
    set.base.k = layer.weight.k;
    set.base.acc = layer.scheme == Scheme::w4a4 ? Acc::w4a4 : Acc::w4a16;
    std::optional<measure::Dense> random;
    ConstMatrix x;
    if (activations) {
      const Result<ConstMatrix> given = activations_of(*activations, layer.name, layer.weight.k);
      if (!given) return given.error();
      x = *given;
      if (options.m.empty()) set.m = {x.rows};
      if (set.m.back() > x.rows) {
        return bad_activations(options.activations, fmt::format("{} rows", set.m.back()), fmt::format("{}", x.rows));
      }
      if (!options.record_amax.empty()) {
        const Result<float> largest = absmax(x, options.threads);
        if (!largest) return largest.error();
        amax[layer.name] = *largest;
      }
      set.base.a = x.type;
      set.base.out = x.type;
    } else {
      random = measure::random_normal(set.base.a, set.m.back(), layer.weight.k, kSeed + i, options.threads);
      x = std::as_const(*random).view();
    }
    set.base.m = set.m.front();
    const Result<std::optional<ConstMatrix>> dense = dense_weight(source, layer);
    if (!dense) return dense.error();
    const auto operands = [&](std::int64_t m) {
      measure::Operands result;
      result.weights = {layer.weight};
      result.x = measure::first_rows(x, m);
      return result;
    };
    if (Status done = run_layer(options, host, layer.name, set, operands, *dense ? &**dense : nullptr,
                                layer.weight.input_global.has_value(), rows);
        !done) {
      return done;
    }
  }
  if (!options.record_amax.empty()) return measure::write_file(options.record_amax, amax.dump(2) + "\n");
  return ok();
}

bool wrong(const Row& row) { return row.checked.report.judgement != Judgement::pass; }

// What the rows prove: a row that is wrong outlives the right ones of its kernel.
Records evidence_of_rows(const Context& context, const Host& host, const std::vector<Row>& rows) {
  Records right;
  Records failed;
  for (const Row& row : rows) {
    (wrong(row) ? failed : right)
        .evidence.push_back(
            evidence_record(context, host.device, row.kernel, Evidence::probed, row.checked, row.problem));
  }
  merge_records(right, failed);
  return right;
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json out;
  out["layer"] = row.layer;
  out["problem"] = to_text(row.problem);
  out["kernel"] = row.kernel;
  put_timing(out, row.timing);
  out["bytes"] = row.bytes;
  out["bytes_per_s"] = row.bytes / row.timing.median_s;
  out["roof_time_ns"] = row.roof.seconds * 1e9;
  out["roof_by"] = measure::limit(row.roof);
  out["roof_share"] = row.roof.seconds / row.timing.median_s;
  put_check(out, row.checked);
  if (row.to_dense) out["relative_error_to_unquantised"] = *row.to_dense;
  return out;
}

void show(Context& context, const Options& options, const Host& host, const std::vector<Row>& rows) {
  const bool dense = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.to_dense.has_value(); });
  std::vector<Table::Column> columns = {
      {"LAYER", false, true}, {"N x K", true},  {"M", true},         {"KERNEL"}, {"TIME", true},
      {"GB/s", true},         {"% ROOF", true}, {"ERR/BOUND", true}, {"RESULT"}};
  if (dense) columns.push_back({"TO UNQUANT", true});
  Table table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> cells = {
        row.layer,
        fmt::format("{}x{}", row.problem.n, row.problem.k),
        fmt::format("{}", row.problem.m),
        row.kernel,
        time_text(row.timing.median_s),
        fmt::format("{:.1f}", row.bytes / row.timing.median_s * 1e-9),
        fmt::format("{:.0f}{}", 100.0 * row.roof.seconds / row.timing.median_s, measure::letter(row.roof)),
        fmt::format("{:.3f}", row.checked.report.worst_ratio),
        std::string(measure::word(row.checked.report.judgement))};
    if (dense) cells.push_back(row.to_dense ? fmt::format("{:.2f} %", 100.0 * *row.to_dense) : "-");
    table.row(std::move(cells));
  }
  print(table.text(context));
  print(fmt::format(
      "roof      m memory {}, f fp32 {}, i int8 {}; {} threads ({}); m only for weights beyond the last cache\n",
      rate_text(host.roof.read_bytes_per_s, "B/s"), rate_text(host.roof.fma_flops_per_s, "FLOP/s"),
      rate_text(host.roof.int8_ops_per_s, "OP/s"), host.roof.threads, host.roof.isa));
  std::map<std::string, std::size_t> compared;
  for (const Row& row : rows) ++compared[row.checked.compared];
  for (const auto& [text, count] : compared) print(fmt::format("compared  {} rows of the table: {}\n", count, text));
  const auto bad = static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), wrong));
  print(fmt::format("result    {} of {} within the bound{}\n", rows.size() - bad, rows.size(),
                    options.kernel.empty() ? "" : fmt::format("; kernel {} was forced", options.kernel)));
}

int run(Context& context, const Options& options) {
  if (!options.record_amax.empty() && options.activations.empty()) {
    return report(context, Error{ErrorKind::usage,
                                 "TE0667",
                                 "--record-amax needs real activations",
                                 "",
                                 "--activations FILE",
                                 "random activations",
                                 {},
                                 ""});
  }
  const bool is_path = std::filesystem::exists(options.what) || options.what.find('/') != std::string::npos ||
                       options.what.ends_with(".safetensors");
  ProblemSet set;
  if (!is_path) {
    Result<ProblemSet> parsed = parse_problem(options.what);
    if (!parsed) return report(context, parsed.error());
    set = std::move(*parsed);
    if (!options.m.empty()) {
      Result<std::vector<std::int64_t>> list = parse_m_list(options.m);
      if (!list) return report(context, list.error());
      set.m = std::move(*list);
      set.base.m = set.m.front();
    }
    for (const auto& [flag, value] :
         {std::pair{"--activations", &options.activations}, std::pair{"--source", &options.source}}) {
      if (!value->empty()) {
        return report(context, Error{ErrorKind::usage,
                                     "TE0667",
                                     fmt::format("{} goes with a checkpoint", flag),
                                     "",
                                     "a checkpoint",
                                     "a problem",
                                     {},
                                     ""});
      }
    }
  }
  for (const std::string& path : {options.record_amax, options.record}) {
    if (path.empty()) continue;
    if (Status can = measure::check_output(path); !can) return report(context, can.error());
  }
  if (!options.record.empty()) {
    if (Status can = check_record_file(options.record); !can) return report(context, can.error());
  }
  Result<Records> records = session_records(options.records);
  if (!records) return report(context, records.error());
  if (!options.kernel.empty()) warn(context, fmt::format("kernel {} is forced", options.kernel));
  Host host;
  host.roof = measure_host(options.threads);
  host.device = host_device(host.roof);
  host.records = std::move(*records);
  std::vector<Row> rows;
  const Status done = is_path ? run_checkpoint(context, options, host, rows) : run_problem(options, host, set, rows);
  if (!done) return report(context, done.error());
  if (!options.record.empty()) {
    if (Status added = add_records(options.record, evidence_of_rows(context, host, rows)); !added) {
      return report(context, added.error());
    }
  }
  settle_roof(rows, host.roof, options.threads);
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.run/2.0");
    put_roof(out, host.roof);
    out["forced_kernel"] = options.kernel.empty() ? nlohmann::json() : nlohmann::json(options.kernel);
    out["rows"] = nlohmann::json::array();
    for (const Row& row : rows) out["rows"].push_back(to_json(row));
    print_json(out);
  } else {
    show(context, options, host, rows);
  }
  return std::any_of(rows.begin(), rows.end(), wrong) ? kWrongResult : kOk;
}

}  // namespace

Verb verb_run() {
  Verb verb;
  verb.name = "run";
  verb.group = "Choose and run";
  verb.summary = "Run a checkpoint's layers or one problem, checked";
  verb.examples =
      "tetrad run ./model-nvfp4 --m 1,64 --layer '*.mlp.*'\n"
      "tetrad run \"m1,64 n4096 k14336\"\n"
      "tetrad run ./model-nvfp4 --source ./model";
  verb.add = [](CLI::App& app) -> Action {
    auto options = std::make_shared<Options>();
    app.add_option("WHAT", options->what, "A checkpoint (folder or file), or a problem text")->required();
    app.add_option("--layer", options->layer, "Only layers that match; * and ?")->type_name("PATTERN");
    app.add_option("--m", options->m, "Rows of activations, e.g. 1,16,256 (default 1,64)")->type_name("LIST");
    app.add_option("--activations", options->activations, "A .safetensors file: a tensor per layer name, or one")
        ->type_name("FILE");
    app.add_option("--kernel", options->kernel, "Force this kernel")->type_name("KERNEL");
    app.add_option("--source", options->source, "The unquantised checkpoint, to show the error of quantising")
        ->type_name("PATH");
    app.add_option("--record-amax", options->record_amax, "Write layer -> amax of its activations as JSON")
        ->type_name("FILE");
    app.add_option("--record", options->record, "Add what was judged to this file of records")->type_name("FILE");
    app.add_option("--records", options->records, "Choose by this file of records [env: TETRAD_RECORDS]")
        ->type_name("FILE");
    app.add_option("--threads", options->threads, "Threads (default all)")->type_name("N")->check(CLI::Range(0, 4096));
    return [options](Context& context) { return run(context, *options); };
  };
  return verb;
}

}  // namespace tetrad::cli
