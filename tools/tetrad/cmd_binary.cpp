// tetrad binary PATH...: which GPUs a library, cubin or wheel holds code for, and what that code does.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "binary_view.hpp"
#include "cli.hpp"
#include "device_arg.hpp"
#include "disasm.hpp"
#include "tetrad/binary.hpp"
#include "tetrad/device.hpp"

namespace tetrad::cli {
namespace {

struct Flags {
  std::vector<std::string> paths;
  std::vector<std::string> devices;
  std::string require;
  std::string kernels;
  int threads = 0;
  bool verify = false;
};

// What --verify found: cubins that nvdisasm listed, and where its counts are not ours.
struct Verification {
  static constexpr std::size_t kMostLines = 100;
  std::string tool;
  std::mutex mutex;
  std::uint64_t cubins = 0;
  std::uint64_t functions = 0;
  std::uint64_t differing = 0;
  std::vector<std::string> lines;  // at most kMostLines
  std::vector<Error> failures;     // at most kMostLines
  std::uint64_t failed = 0;

  void add(std::string_view where, std::span<const std::byte> bytes, const CubinReport& cubin) {
    if (!cubin.decoded || cubin.kernels.empty()) return;
    const auto listed = disassemble(tool, bytes);
    const std::lock_guard lock(mutex);
    if (!listed) {
      ++failed;
      if (failures.size() < kMostLines) {
        failures.push_back(listed.error());
        failures.back().where = std::string(where);
      }
      return;
    }
    ++cubins;
    functions += cubin.kernels.size();
    for (const std::string& line : differences(cubin, *listed)) {
      ++differing;
      if (lines.size() < kMostLines) lines.push_back(fmt::format("{}: {}", where, line));
    }
  }
};

Result<std::vector<DeviceProfile>> devices_of(const Context& context, const Flags& flags) {
  std::vector<DeviceProfile> devices;
  for (const std::string& name : flags.devices) {
    Result<DeviceProfile> device = device_named(context, name);
    if (!device) return device.error();
    devices.push_back(std::move(*device));
  }
  return devices;
}

// One device per compute capability, with the names of all of them.
std::vector<DeviceProfile> one_per_capability(const std::vector<DeviceProfile>& known) {
  std::map<ComputeCapability, DeviceProfile> unique;
  for (const DeviceProfile& device : known) {
    if (device.host) continue;
    const auto [at, fresh] = unique.try_emplace(device.cc, device);
    if (!fresh) at->second.name += ", " + device.name;
  }
  std::vector<DeviceProfile> out;
  for (auto& [cc, device] : unique) out.push_back(std::move(device));
  return out;
}

// What --require asks of every device named.
bool met(const std::string& require, const BinaryView& view, const DeviceProfile& device) {
  const DeviceAnswer total = view.answer(device.cc);
  const auto kernels = [&](KernelClass what) { return total.verdicts[static_cast<std::size_t>(what)] > 0; };
  if (require == "fp4") return total.native_fp4() || total.fp4_jit_modules > 0;
  if (require == "fp8") return total.native_fp4() || kernels(KernelClass::fp8);
  if (require == "native") return total.native_modules > 0 && total.jit_modules + total.missing_modules == 0;
  return total.native_modules + total.jit_modules > 0 && total.missing_modules == 0;
}

Result<BinaryReport> read_all(const Context& context, const Flags& flags, Verification* verification) {
  BinaryReport all;
  Progress progress(context, "reading");
  BinaryOptions options;
  options.kernels = flags.kernels;
  options.threads = flags.threads;
  if (verification != nullptr) {
    options.cubin = [verification](std::string_view where, std::span<const std::byte> bytes, const CubinReport& cubin) {
      verification->add(where, bytes, cubin);
    };
  }
  options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view item) {
    progress.update(done, total, item);
  };
  for (const std::string& path : flags.paths) {
    Result<BinaryReport> one = read_binary(path, options);
    if (!one) return one.error();
    if (flags.paths.size() > 1) progress.item_done(path);
    for (BinaryFile& file : one->files) all.files.push_back(std::move(file));
    for (Error& problem : one->problems) all.problems.push_back(std::move(problem));
    all.files_seen += one->files_seen;
    all.bytes_seen += one->bytes_seen;
  }
  return all;
}

int binary(const Context& context, const Flags& flags) {
  const Result<std::vector<DeviceProfile>> named = devices_of(context, flags);
  if (!named) return report(context, named.error());
  if (!flags.require.empty() && named->empty()) {
    return report(
        context,
        {ErrorKind::usage, "TE0816", "--require asks for a device", {}, "--device NAME", "none", {}, "tetrad devices"});
  }
  Verification verification;
  if (flags.verify) {
    Result<std::string> tool = find_nvdisasm();
    if (!tool) return report(context, tool.error());
    verification.tool = std::move(*tool);
  }
  const Result<BinaryReport> read = read_all(context, flags, flags.verify ? &verification : nullptr);
  if (!read) return report(context, read.error());
  const BinaryView view(*read);
  std::vector<DeviceProfile> shown = *named;
  if (shown.empty()) {
    const Result<std::vector<DeviceProfile>> known =
        context.data_dir.empty() ? Result<std::vector<DeviceProfile>>(known_devices()) : load_devices(context.data_dir);
    if (!known) return report(context, known.error());
    shown = one_per_capability(*known);
  }
  std::vector<std::string> unmet;
  if (!flags.require.empty()) {
    for (const DeviceProfile& device : *named) {
      if (!met(flags.require, view, device)) unmet.push_back(device.slug);
    }
  }
  const std::vector<Error> problems = view.problems();
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.binary/1.0");
    view.put(out, shown);
    if (!flags.require.empty()) out["require"] = {{"what", flags.require}, {"not_met_by", unmet}};
    if (flags.verify) {
      out["verify"] = {{"nvdisasm", verification.tool},       {"cubins", verification.cubins},
                       {"functions", verification.functions}, {"failed", verification.failed},
                       {"differing", verification.differing}, {"differences", verification.lines}};
    }
    print_json(out);
  } else {
    print(view.summary(context));
    if (view.has_code()) {
      if (named->empty()) {
        print("\n" + view.capabilities(context, shown));
      } else {
        for (const DeviceProfile& device : shown) print("\n" + view.device(context, device));
      }
    }
    if (!flags.kernels.empty()) print("\n" + view.kernels(context, flags.kernels));
    if (!flags.require.empty()) print("\n" + view.require_text(context, flags.require, *named, unmet));
    if (flags.verify) {
      print(fmt::format("\n{} functions of {} cubins read again by {}: {}\n", verification.functions,
                        verification.cubins, verification.tool,
                        verification.differing == 0 ? std::string("the same counts")
                                                    : fmt::format("{} counts differ", verification.differing)));
      for (const std::string& line : verification.lines) print("  " + line + "\n");
    }
    constexpr std::size_t kShown = 10;
    for (std::size_t i = 0; i < problems.size() && (i < kShown || context.verbosity > 0); ++i) {
      (void)report(context, problems[i]);
    }
    if (problems.size() > kShown && context.verbosity <= 0) {
      warn(context, fmt::format("{} more files or images could not be read (-v lists all)", problems.size() - kShown));
    }
  }
  if (verification.failed > 0) {
    if (context.json) return kUnavailable;
    return report(context, verification.failures.front());
  }
  if (verification.differing > 0) return kWrongResult;
  if (!problems.empty()) return kUsage;
  return unmet.empty() ? kOk : kFindings;
}

}  // namespace

Verb verb_binary() {
  Verb verb;
  verb.name = "binary";
  verb.group = "Read files";
  verb.summary = "Targets and instructions inside compiled code";
  verb.examples =
      "tetrad binary vllm-0.12.0-cp38-abi3-manylinux_2_31_x86_64.whl\n"
      "tetrad binary libfoo.so --device gb10 --require fp4\n"
      "tetrad binary site-packages/flashinfer --device rtx-5090 --kernels '*fp4*'";
  verb.add = [](CLI::App& app) -> Action {
    auto flags = std::make_shared<Flags>();
    app.add_option("PATH", flags->paths,
                   "Library, object, archive, cubin, fat binary, PTX file, wheel, or a folder of these")
        ->required();
    app.add_option("--device", flags->devices, "Answer for this device in full; may be repeated")
        ->allow_extra_args(false);
    app.add_option("--require", flags->require,
                   "Exit code 1 unless every --device gets this: fp4 (FP4 tensor instructions), fp8 (or better), "
                   "native (machine code of every module), load (machine code or PTX of every module)")
        ->check(CLI::IsMember({"fp4", "fp8", "native", "load"}));
    app.add_option("--kernels", flags->kernels, "List kernels whose mangled or readable name matches, with * and ?");
    app.add_flag("--verify", flags->verify,
                 "Compare all counts with nvdisasm's (found in CUDA_HOME, on PATH, in PyPI's packages)");
    app.add_option("--threads", flags->threads, "Threads (default: all)")->check(CLI::Range(1, 1024));
    return [flags](Context& context) { return binary(context, *flags); };
  };
  return verb;
}

}  // namespace tetrad::cli
