// tetrad targets: what does a list of architectures build, and where does that run FP4?
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>

#include "cli.hpp"
#include "device_arg.hpp"
#include "tetrad/arch_list.hpp"

namespace tetrad::cli {
namespace {

struct Flags {
  std::vector<std::string> list;
  std::string cuda = "13.0";
  std::string device;
  std::string syntax = "auto";
  std::string log;
};

std::string joined(const std::vector<TensorOp>& ops) {
  std::string out;
  for (const TensorOp op : ops) {
    if (op == TensorOp::mma_bf16 || op == TensorOp::mma_fp8) continue;
    out += (out.empty() ? "" : " ") + std::string(name(op));
  }
  return out.empty() ? "-" : out;
}

nlohmann::json json_of(const BuiltTarget& built) {
  nlohmann::json ops = nlohmann::json::array();
  for (const TensorOp op : built.ops) ops.push_back(name(op));
  const bool ptx = to_text(built.target).starts_with("compute_");
  return {{"target", to_text(built.target)},
          {"ptx", ptx},
          {"source", to_text(built.source)},
          {"from", built.from},
          {"built", built.known},
          {"why_not", built.note},
          {"instructions", ops}};
}

nlohmann::json json_of(const DeviceProfile& device, const DeviceAnswer& answer) {
  const Suggestion s = suggest(device.cc);
  return {
      {"device", device.slug},
      {"compute_capability", fmt::format("{}.{}", device.cc.major, device.cc.minor)},
      {"loads", answer.loads},
      {"jit", answer.jit},
      {"fp4", name(answer.fp4)},
      {"target", answer.target ? nlohmann::json(to_text(*answer.target)) : nlohmann::json()},
      {"why", answer.why},
      {"suggest", {{"torch", s.torch}, {"cmake", s.cmake}, {"nvcc", s.nvcc}, {"family", s.family}, {"cuda", s.cuda}}}};
}

Result<std::vector<DeviceProfile>> devices_of(const Context& context, const std::string& wanted) {
  if (!wanted.empty()) {
    Result<DeviceProfile> device = device_named(context, wanted);
    if (!device) return device.error();
    if (device->cc == ComputeCapability{}) {
      return Error{ErrorKind::usage, "TE0885", "the device is no gpu", "--device", "a gpu",
                   device->slug,     {},       "tetrad devices"};
    }
    return std::vector<DeviceProfile>{*device};
  }
  if (context.data_dir.empty()) return known_devices();
  return load_devices(context.data_dir);
}

void print_list(const Context& context, const ArchList& list,
                const std::vector<std::pair<DeviceProfile, DeviceAnswer>>& answers, bool one) {
  print(fmt::format("list      {} syntax, CUDA {} (ptxas {})\n\n", name(list.syntax), list.toolkit.release,
                    list.toolkit.ptxas));
  Table table({{"IMAGE"}, {"FROM PTX"}, {"INSTRUCTIONS"}, {"WORDS", false, true}});
  for (const BuiltTarget& built : list.targets) {
    const std::string text = to_text(built.target);
    table.row({text.starts_with("compute_") ? text : "sm_" + text, to_text(built.source),
               built.known ? joined(built.ops) : paint(context.color_out, Style::red, "not built: " + built.note),
               built.from});
  }
  print(table.text(context));
  print("\n");
  if (!one) {
    Table brief({{"DEVICE"}, {"SM"}, {"LOADS"}, {"FP4"}});
    for (const auto& [device, answer] : answers) {
      const std::string loads = !answer.loads ? "no" : (answer.jit ? "jit " : "") + to_text(*answer.target);
      brief.row(
          {device.slug, fmt::format("{}.{}", device.cc.major, device.cc.minor), loads, std::string(name(answer.fp4))});
    }
    print(brief.text(context));
  } else {
    const auto& [device, answer] = answers.front();
    const Suggestion s = suggest(device.cc);
    print(fmt::format("device    {} sm_{}{}: {}, FP4 {}\n", device.name, device.cc.major, device.cc.minor,
                      answer.loads ? (answer.jit ? "loads after the driver compiled it" : "loads") : "does not load",
                      name(answer.fp4)));
    print(fmt::format("why       {}\n", answer.why));
    print(fmt::format("build     torch \"{}\", CMake {}, nvcc {} (CUDA {} on)\n", s.torch, s.cmake, s.nvcc, s.cuda));
    if (!s.family.empty()) print(fmt::format("or        {}, one image for the family\n", s.family));
  }
  for (const std::string& note : list.notes) print(fmt::format("note: {}\n", note));
}

int answer_list(const Context& context, const Flags& flags) {
  Result<Toolkit> toolkit = find_toolkit(flags.cuda);
  if (!toolkit) return report(context, toolkit.error());
  Result<std::vector<DeviceProfile>> devices = devices_of(context, flags.device);
  if (!devices) return report(context, devices.error());
  std::string words;
  for (const std::string& word : flags.list) words += (words.empty() ? "" : " ") + word;
  const ArchSyntax syntax = flags.syntax == "torch"   ? ArchSyntax::torch
                            : flags.syntax == "cmake" ? ArchSyntax::cmake
                            : flags.syntax == "nvcc"  ? ArchSyntax::nvcc
                                                      : guess_syntax(words);
  const std::optional<ComputeCapability> here =
      flags.device.empty() ? std::nullopt : std::optional(devices->front().cc);
  Result<ArchList> list = read_arch_list(words, syntax, *toolkit, here);
  if (!list) return report(context, list.error());
  std::vector<std::pair<DeviceProfile, DeviceAnswer>> answers;
  bool fine = true;
  for (const DeviceProfile& device : *devices) {
    if (device.cc == ComputeCapability{}) continue;
    answers.emplace_back(device, answer_on(*list, device.cc));
    const Fp4Answer fp4 = answers.back().second.fp4;
    if (!flags.device.empty() && (fp4 == Fp4Answer::no_suffix || fp4 == Fp4Answer::nothing_loads)) fine = false;
  }
  for (const BuiltTarget& built : list->targets) fine = fine && built.known;
  if (!context.json) {
    print_list(context, *list, answers, !flags.device.empty());
    return fine ? kOk : kFindings;
  }
  nlohmann::json out = document(context, "tetrad.targets/1.0");
  out["syntax"] = name(list->syntax);
  out["cuda"] = list->toolkit.release;
  out["ptxas"] = list->toolkit.ptxas;
  out["targets"] = nlohmann::json::array();
  for (const BuiltTarget& built : list->targets) out["targets"].push_back(json_of(built));
  out["devices"] = nlohmann::json::array();
  for (const auto& [device, answer] : answers) out["devices"].push_back(json_of(device, answer));
  out["notes"] = list->notes;
  print_json(out);
  return fine ? kOk : kFindings;
}

// Reads line by line; of a longer line the first 64 KiB count.
void read_lines(std::istream& in, LogReader& reader) {
  constexpr std::size_t kMost = 65536;
  std::vector<char> block(kMost);
  std::string line;
  bool open = false;
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    for (std::streamsize i = 0; i < in.gcount(); ++i) {
      const char c = block[static_cast<std::size_t>(i)];
      if (c == '\n') {
        reader.add_line(line);
        line.clear();
        open = false;
      } else {
        open = true;
        if (line.size() < kMost) line += c;
      }
    }
  }
  if (open) reader.add_line(line);
}

int answer_log(const Context& context, const Flags& flags) {
  LogReader reader;
  if (flags.log == "-") {
    read_lines(std::cin, reader);
  } else {
    std::ifstream in(flags.log, std::ios::binary);
    if (in) read_lines(in, reader);
    if (!in.is_open() || in.bad()) {
      return report(
          context,
          {ErrorKind::input, "TE0886", "the log cannot be read", flags.log, "a readable file, or -", {}, {}, {}});
    }
  }
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.targets_log/1.0");
    out["lines"] = reader.lines();
    out["findings"] = nlohmann::json::array();
    for (const LogFinding& f : reader.findings()) {
      out["findings"].push_back({{"rule", f.rule},
                                 {"line", f.line},
                                 {"count", f.count},
                                 {"text", f.text},
                                 {"target", f.target},
                                 {"meaning", f.meaning},
                                 {"build", f.build}});
    }
    print_json(out);
  } else {
    for (const LogFinding& f : reader.findings()) {
      print(fmt::format("{} line {}, {} time(s){}\n  text     {}\n  meaning  {}\n  build    {}\n",
                        paint(context.color_out, Style::bold, f.rule), f.line, f.count,
                        f.target.empty() ? "" : ", target " + f.target, f.text, f.meaning, f.build));
    }
    print(fmt::format("{} lines, {} finding(s)\n", reader.lines(), reader.findings().size()));
  }
  return reader.findings().empty() ? kOk : kFindings;
}

int targets(const Context& context, const Flags& flags) {
  if (flags.list.empty() == flags.log.empty()) {
    return report(context, {ErrorKind::usage,
                            "TE0887",
                            "a list or a log, one of the two",
                            "tetrad targets",
                            "LIST, or --log FILE",
                            flags.list.empty() ? "neither" : "both",
                            {},
                            "tetrad targets \"12.0+PTX\" --cuda 12.8"});
  }
  return flags.log.empty() ? answer_list(context, flags) : answer_log(context, flags);
}

}  // namespace

Verb verb_targets() {
  Verb verb;
  verb.name = "targets";
  verb.group = "Read files";
  verb.summary = "What an architecture list builds, and where FP4 runs";
  verb.examples =
      "tetrad targets \"9.0a 12.0+PTX\" --cuda 12.8\n"
      "tetrad targets \"120f-real\" --device gb10\n"
      "tetrad targets --device gb10 -- -gencode arch=compute_120f,code=sm_120f\n"
      "tetrad targets --log build.log";
  verb.add = [](CLI::App& app) -> Action {
    auto flags = std::make_shared<Flags>();
    app.add_option("LIST", flags->list, "TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES or options of nvcc (after --)");
    app.add_option("--cuda", flags->cuda, "CUDA release that builds (default 13.0)");
    app.add_option("--device", flags->device, "Device that counts; without it, all known ones");
    app.add_option("--syntax", flags->syntax, "auto, torch, cmake or nvcc (default auto)")
        ->check(CLI::IsMember({"auto", "torch", "cmake", "nvcc"}));
    app.add_option("--log", flags->log, "Log of a build or an engine to read instead; - is standard input");
    return [flags](Context& context) { return targets(context, *flags); };
  };
  return verb;
}

}  // namespace tetrad::cli
