// tetrad kernels [NAME]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli.hpp"
#include "core/text.hpp"
#include "device_arg.hpp"
#include "record_file.hpp"
#include "tetrad/kernels.hpp"
#include "tetrad/records.hpp"

namespace tetrad::cli {
namespace {

struct Flags {
  std::string name;
  std::string device;
  std::string records;
};

template <class T>
std::string names_of(const std::vector<T>& values, const char* none) {
  std::vector<std::string_view> names;
  for (const T value : values) names.push_back(name(value));
  return names.empty() ? none : fmt::format("{}", fmt::join(names, ", "));
}

std::string tile_text(const Tile& tile) {
  return tile.k > 0 ? fmt::format("{}x{}x{}", tile.m, tile.n, tile.k) : std::string("-");
}

// What a listing is about.
struct Asked {
  std::string device;  // slug; empty: every device's costs, this host's evidence
  Records records;

  Evidence evidence(const Candidate& c) const {
    return evidence_of(records, c.name, device.empty() ? "host" : device, c.built, c.digest);
  }
};

// A cost and where it holds: fitted for this kernel on a device, a stand-in's there, or the row's own.
struct CostRow {
  std::string device;
  CostParams params;
  bool stand_in = false;
};

std::vector<CostRow> costs_of(const Candidate& c, const Asked& asked) {
  std::vector<CostRow> rows;
  for (const FittedCost& cost : asked.records.costs) {
    const bool own = cost.kernel == c.name;
    if (!own && (c.stand_in.empty() || cost.kernel != c.stand_in)) continue;
    if (!asked.device.empty() && cost.device != asked.device) continue;
    CostRow row{cost.device, cost.params, !own};
    if (row.stand_in) row.params.compute_efficiency *= c.stand_in_scale;
    rows.push_back(std::move(row));
  }
  rows.push_back({"elsewhere", c.cost, false});
  return rows;
}

nlohmann::json cost_json(const CostRow& row, const Candidate& c) {
  return {{"device", row.device},
          {"memory_efficiency", row.params.memory_efficiency},
          {"compute_efficiency", row.params.compute_efficiency},
          {"stand_in", row.stand_in ? nlohmann::json(c.stand_in) : nlohmann::json(nullptr)},
          {"source", row.params.source}};
}

nlohmann::json kernel_json(const Candidate& c, const Asked& asked) {
  nlohmann::json out{{"name", c.name},
                     {"target", to_text(c.target)},
                     {"acc", name(c.acc)},
                     {"unit", name(c.unit)},
                     {"tile", {{"m", c.tile.m}, {"n", c.tile.n}, {"k", c.tile.k}, {"stages", c.tile.stages}}},
                     {"swap_ab", c.swap_ab},
                     {"smem_bytes", c.smem_bytes},
                     {"smem_source", c.smem_source},
                     {"m_min", c.m_min},
                     {"m_max", c.m_max},
                     {"n_multiple", c.n_multiple},
                     {"k_multiple", c.k_multiple},
                     {"grouped", c.grouped},
                     {"bias", c.bias},
                     {"needs_input_scale", c.needs_input_scale},
                     {"launches", c.launches},
                     {"deterministic", c.deterministic},
                     {"m_invariant", c.m_invariant},
                     {"accuracy", name(c.accuracy)},
                     {"reference", c.reference},
                     {"built", c.built},
                     {"digest", c.digest},
                     {"layout", c.layout},
                     {"evidence", name(asked.evidence(c))}};
  const auto list = [&](const char* key, const auto& values) {
    out[key] = nlohmann::json::array();
    for (const auto value : values) out[key].push_back(name(value));
  };
  list("features", c.features);
  list("a_types", c.a_types);
  list("w_types", c.w_types);
  list("out_types", c.out_types);
  out["costs"] = nlohmann::json::array();
  for (const CostRow& row : costs_of(c, asked)) out["costs"].push_back(cost_json(row, c));
  return out;
}

int list_all(const Context& context, const Asked& asked) {
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.kernels/1.0");
    out["kernels"] = nlohmann::json::array();
    for (const Candidate& c : kernel_candidates()) out["kernels"].push_back(kernel_json(c, asked));
    print_json(out);
    return kOk;
  }
  Table table({{"kernel"}, {"target"}, {"acc"}, {"unit"}, {"tile"}, {"stages", true}, {"smem B", true}, {"evidence"}});
  for (const Candidate& c : kernel_candidates()) {
    const Evidence evidence = asked.evidence(c);
    table.row({c.name, to_text(c.target), std::string(name(c.acc)), std::string(name(c.unit)), tile_text(c.tile),
               c.tile.stages > 0 ? std::to_string(c.tile.stages) : "-",
               c.smem_bytes > 0 ? std::to_string(c.smem_bytes) : "-", std::string(name(evidence))});
  }
  std::string text = table.text(context);
  if (context.tty_out) {
    text += paint(context.color_out, Style::dim,
                  "declared: described, no code in this build; 'tetrad kernels NAME' shows all of one") +
            "\n";
  }
  print(text);
  return kOk;
}

std::string m_text(const Candidate& c) {
  return c.m_max > 0 ? fmt::format("{} to {}", c.m_min, c.m_max) : fmt::format("{} up", c.m_min);
}

std::string one_text(const Context& context, const Candidate& c, const Asked& asked) {
  std::string text = paint(context.color_out, Style::bold, c.name) + "\n";
  const auto line = [&](const char* label, const std::string& value) {
    text += fmt::format("  {:<15}{}\n", label, value);
  };
  line("target", to_text(c.target));
  line("features", names_of(c.features, "none"));
  line("activations", fmt::format("{} inside ({}); takes {}", name(c.acc), name(c.unit), names_of(c.a_types, "none")));
  line("weights", fmt::format("{}, layout {}", names_of(c.w_types, "none"), c.layout));
  line("result", fmt::format("{}; {}", names_of(c.out_types, "none"), name(c.accuracy)));
  if (c.tile.k > 0) {
    line("tile", fmt::format("{}, {} stages{}", tile_text(c.tile), c.tile.stages,
                             c.swap_ab ? "; its rows lie along n, its columns along m" : ""));
  }
  if (!c.target.cc.major) {
    line("runs on", "the cpu");
  } else {
    line("shared memory", fmt::format("{} B per block ({})", c.smem_bytes, c.smem_source));
  }
  line("m", m_text(c));
  line("n, k", fmt::format("multiples of {} and {}", c.n_multiple, c.k_multiple));
  line("groups, bias", fmt::format("{}, {}", c.grouped ? "yes" : "no", c.bias ? "yes" : "no"));
  line("launches", std::to_string(c.launches));
  line("same bits",
       fmt::format("twice: {}; for a row alone: {}", c.deterministic ? "yes" : "no", c.m_invariant ? "yes" : "no"));
  line("evidence",
       fmt::format("{}{}", name(asked.evidence(c)), c.digest.empty() ? "" : ", digest " + c.digest.substr(0, 12)));
  for (const EvidenceRecord& record : asked.records.evidence) {
    if (record.kernel != c.name || record.device != (asked.device.empty() ? "host" : asked.device)) continue;
    line("", fmt::format("{} {}: {}{}", record.date,
                         record.failure.empty() ? name(record.evidence) : "failed: " + record.failure, record.command,
                         record.digest == c.digest ? "" : " (other machine code: does not count)"));
  }
  for (const CostRow& row : costs_of(c, asked)) {
    line("cost", fmt::format("{}: {:.2f} of the bandwidth, {:.2f} of the {} rate", row.device,
                             row.params.memory_efficiency, row.params.compute_efficiency, name(c.unit)));
    line("", (row.stand_in ? "stand-in " + c.stand_in + ": " : "") + row.params.source);
  }
  line("force",
       fmt::format("tetrad plan PROBLEM --force {}{}", c.name, c.reference ? "   (an oracle: chosen only so)" : ""));
  return text;
}

int show_one(Context& context, const Flags& flags, const Asked& asked) {
  const KernelDescriptor* found = find_kernel(flags.name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const Candidate& c : kernel_candidates()) names.push_back(c.name);
    Error error;
    error.kind = ErrorKind::usage;
    error.id = "TE0505";
    error.what = fmt::format("there is no kernel '{}'", flags.name);
    error.need = "the name of a kernel";
    error.have = flags.name;
    error.hint = core::did_you_mean(flags.name, names);
    if (error.hint.empty()) error.hint = "tetrad kernels lists them";
    return report(context, error);
  }
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.kernels/1.0");
    out["kernels"] = {kernel_json(found->candidate, asked)};
    print_json(out);
    return kOk;
  }
  print(one_text(context, found->candidate, asked));
  return kOk;
}

int kernels(Context& context, const Flags& flags) {
  Result<Records> records = session_records(flags.records);
  if (!records) return report(context, records.error());
  Asked asked{"", std::move(*records)};
  if (!flags.device.empty()) {
    const Result<DeviceProfile> found = device_named(context, flags.device);
    if (!found) return report(context, found.error());
    asked.device = found->slug;
  }
  return flags.name.empty() ? list_all(context, asked) : show_one(context, flags, asked);
}

}  // namespace

Verb verb_kernels() {
  Verb verb;
  verb.name = "kernels";
  verb.group = "Choose and run";
  verb.summary = "List kernels, what each needs, how to force one";
  verb.examples =
      "tetrad kernels\n"
      "tetrad kernels sm120_w4a4_omma_128x128x128\n"
      "tetrad kernels --device gb10 --json";
  verb.add = [](CLI::App& app) -> Action {
    auto flags = std::make_shared<Flags>();
    app.add_option("NAME", flags->name, "Show everything about one kernel");
    app.add_option("--device", flags->device, "Evidence and costs on this device; else evidence on this machine");
    app.add_option("--records", flags->records, "File of records of run and bench [env: TETRAD_RECORDS]")
        ->type_name("FILE");
    return [flags](Context& context) { return kernels(context, *flags); };
  };
  return verb;
}

}  // namespace tetrad::cli
