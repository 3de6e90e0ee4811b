// tetrad devices [NAME]
#include <fmt/format.h>

#include <memory>

#include "cli.hpp"
#include "core/text.hpp"
#include "tetrad/device.hpp"
#include "tetrad/host.hpp"

namespace tetrad::cli {
namespace {

struct Options {
  std::string name;
  std::string targets;
  bool measure = false;
};

std::string capability(const DeviceProfile& device) {
  return device.host ? "-" : fmt::format("{}.{}", device.cc.major, device.cc.minor);
}

std::string feature_list(const DeviceProfile& device) {
  std::vector<std::string_view> names;
  for (const Feature feature : device.features) names.push_back(name(feature));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

template <class T>
std::string count_text(const Fact<T>& fact) {
  return fact.known() ? fmt::format("{}", *fact.value) : "-";
}

std::string scaled_text(const Fact<double>& fact, double unit, int decimals) {
  return fact.known() ? fmt::format("{:.{}f}", *fact.value / unit, decimals) : "-";
}

// "273000000000 bytes_per_s" as a person reads it.
std::string value_text(std::string_view key, const Fact<double>& fact) {
  if (!fact.known()) return "unknown";
  if (key.ends_with("_hz")) return rate_text(*fact.value, "Hz");
  return rate_text(*fact.value, key.ends_with("bytes_per_s") ? "B/s" : key.ends_with("_op_per_s") ? "OP/s" : "FLOP/s");
}
std::string value_text(std::string_view key, const Fact<std::int64_t>& fact) {
  if (!fact.known()) return "unknown";
  const std::string number = fmt::format("{}", *fact.value);
  return key == "memory_bytes" || key == "l2_bytes"    ? bytes_text(static_cast<double>(*fact.value))
         : key.find("bytes") != std::string_view::npos ? number + " B"
                                                       : number;
}
std::string value_text(std::string_view, const Fact<bool>& fact) {
  return !fact.known() ? "unknown" : *fact.value ? "yes" : "no";
}

nlohmann::json device_document(const DeviceProfile& device) {
  nlohmann::json out = nlohmann::json::parse(device_to_json(device));
  out.erase("schema");
  out["host"] = device.host;
  out["features"] = nlohmann::json::array();
  for (const Feature feature : device.features) out["features"].push_back(name(feature));
  for (auto& [key, fact] : out["facts"].items()) {
    if (!fact["value"].is_null() && !fact.contains("origin")) fact["origin"] = name(Origin::data_file);
  }
  return out;
}

Result<std::vector<Target>> parse_targets(std::string_view text) {
  std::vector<Target> targets;
  while (true) {
    const std::size_t comma = text.find(',');
    Result<Target> target = parse_target(text.substr(0, comma));
    if (!target) {
      Error error = target.error();
      error.where = "--targets";
      return error;
    }
    targets.push_back(*target);
    if (comma == std::string_view::npos) return targets;
    text.remove_prefix(comma + 1);
  }
}

int list_all(const Context& context, const std::vector<DeviceProfile>& devices) {
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.devices/1.0");
    out["devices"] = nlohmann::json::array();
    for (const DeviceProfile& device : devices) out["devices"].push_back(device_document(device));
    print_json(out);
    return kOk;
  }
  Table table({{"device"},
               {"cc", true},
               {"SMs", true},
               {"smem/block", true},
               {"memory GB", true},
               {"GB/s", true},
               {"read GB/s", true},
               {"FP4 TF/s", true},
               {"FP8", true},
               {"BF16", true}});
  for (const DeviceProfile& device : devices) {
    const Fact<std::int64_t>& memory = device.memory_bytes;
    table.row({device.slug, capability(device), count_text(device.sms), count_text(device.smem_per_block_optin),
               memory.known() ? fmt::format("{:.0f}", static_cast<double>(*memory.value) / 1e9) : "-",
               scaled_text(device.bandwidth_spec, 1e9, 0), scaled_text(device.bandwidth_read, 1e9, 0),
               scaled_text(device.peak_nvfp4, 1e12, 0), scaled_text(device.peak_fp8, 1e12, 0),
               scaled_text(device.peak_bf16, 1e12, 0)});
  }
  std::string text = table.text(context);
  if (context.tty_out) {
    text +=
        paint(
            context.color_out, Style::dim,
            "dense rates, fp32 accumulation; - is unknown or absent; 'tetrad devices NAME' shows every fact's source") +
        "\n";
  }
  print(text);
  return kOk;
}

std::string facts_text(const Context& context, const DeviceProfile& device) {
  std::string text = fmt::format("{}  ({})\n", paint(context.color_out, Style::bold, device.slug), device.name);
  if (!device.aliases.empty()) text += fmt::format("  also called  {}\n", fmt::join(device.aliases, ", "));
  if (!device.host) text += fmt::format("  capability   {}  [{}]\n", capability(device), device.cc_source);
  text += fmt::format("  features     {}\n\n", feature_list(device));

  Table table({{"fact"}, {"value", true}, {"origin"}, {"certainty"}});
  std::string sources;
  for_each_fact(device, [&](std::string_view key, const auto& fact) {
    table.row({std::string(key), value_text(key, fact), std::string(fact.known() ? name(fact.origin) : "-"),
               std::string(fact.known() ? name(fact.certainty) : "-")});
    if (fact.source.empty() && fact.note.empty()) return;
    sources += fmt::format("{}\n", paint(context.color_out, Style::bold, key));
    if (!fact.source.empty()) sources += fmt::format("  source  {}\n", fact.source);
    if (!fact.note.empty()) sources += fmt::format("  note    {}\n", fact.note);
  });
  return text + table.text(context) + "\n" + sources;
}

int show_one(const Context& context, const DeviceProfile& device, const std::vector<Target>& targets) {
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.devices/1.0");
    out["devices"] = {device_document(device)};
    if (!targets.empty()) out["targets"] = nlohmann::json::array();
    for (const Target& target : targets) {
      const LoadVerdict verdict = loads_on(target, device.cc);
      out["targets"].push_back(
          {{"target", to_text(target)}, {"loads", verdict.loads}, {"jit", verdict.jit}, {"why", verdict.why}});
    }
    print_json(out);
    return kOk;
  }
  if (targets.empty()) {
    print(facts_text(context, device));
    return kOk;
  }
  Table table({{"target"}, {"on " + device.slug}, {"why", false, true}});
  for (const Target& target : targets) {
    const LoadVerdict verdict = loads_on(target, device.cc);
    const std::string answer = verdict.jit ? "loads (jit)" : verdict.loads ? "loads" : "does not load";
    table.row(
        {to_text(target), paint(context.color_out, verdict.loads ? Style::green : Style::red, answer), verdict.why});
  }
  print(table.text(context));
  return kOk;
}

Error usage(std::string what, std::string need, std::string have) {
  return {ErrorKind::usage, "TE0314", std::move(what), {}, std::move(need), std::move(have), {}, {}};
}

int devices(Context& context, const Options& options) {
  std::vector<Target> targets;
  if (!options.targets.empty()) {
    if (options.name.empty()) {
      return report(context, usage("--targets needs a device", "tetrad devices NAME --targets LIST", "no NAME"));
    }
    Result<std::vector<Target>> parsed = parse_targets(options.targets);
    if (!parsed) return report(context, parsed.error());
    targets = std::move(*parsed);
  }
  Result<std::vector<DeviceProfile>> known =
      context.data_dir.empty() ? Result<std::vector<DeviceProfile>>(known_devices()) : load_devices(context.data_dir);
  if (!known) return report(context, known.error());

  const std::string word = core::lower(options.name);
  const bool host = word == "host" || word == "cpu";
  if (options.measure && !host && !options.name.empty()) {
    return report(context, usage("--measure is for this machine's cpu", "tetrad devices host --measure", options.name));
  }
  if (!options.name.empty() && !host) {
    const Result<DeviceProfile> device = find_device(options.name, *known);
    return device ? show_one(context, *device, targets) : report(context, device.error());
  }
  const DeviceProfile cpu = options.measure ? host_device(measure_host()) : host_device();
  if (host) return show_one(context, cpu, targets);
  known->push_back(cpu);
  return list_all(context, *known);
}

}  // namespace

Verb verb_devices() {
  Verb verb;
  verb.name = "devices";
  verb.group = "Choose and run";
  verb.summary = "List devices and the facts that plans are made from";
  verb.examples =
      "tetrad devices\n"
      "tetrad devices gb10\n"
      "tetrad devices gb10 --targets 120,120a,120f,compute_90\n"
      "tetrad devices host --measure";
  verb.add = [](CLI::App& app) -> Action {
    auto options = std::make_shared<Options>();
    app.add_option("NAME", options->name, "Slug, alias or full name of a device; host is this machine's cpu");
    app.add_option("--targets", options->targets, "Show which compiled targets load on the device, and why");
    app.add_flag("--measure", options->measure, "Measure this machine's read bandwidth and arithmetic rate");
    return [options](Context& context) { return devices(context, *options); };
  };
  return verb;
}

}  // namespace tetrad::cli
