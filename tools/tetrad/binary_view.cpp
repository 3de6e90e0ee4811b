#include "binary_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tetrad::cli {
namespace {

constexpr std::size_t kNameWidth = 46;
constexpr std::size_t kGroupWidth = 50;
constexpr std::size_t kTargetsWidth = 34;
constexpr std::size_t kShownLibraries = 30;
constexpr std::size_t kShownGroups = 20;

std::size_t at(KernelClass what) { return static_cast<std::size_t>(what); }

// The end of a path is what tells files apart.
std::string tail(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - (width - 3));
}
std::string head(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

bool ordered(const Target& a, const Target& b) { return std::tuple(a.cc, a.kind) < std::tuple(b.cc, b.kind); }

std::string device_name(const DeviceProfile& device) {
  return fmt::format("{} ({}.{})", device.slug, device.cc.major, device.cc.minor);
}

std::string plural(std::uint64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

// "75 80 90a 120f, PTX 120": of machine code, then of PTX.
std::string targets_text(const std::vector<const BinaryFile*>& files) {
  std::set<Target, bool (*)(const Target&, const Target&)> cubins(ordered);
  std::set<Target, bool (*)(const Target&, const Target&)> ptx(ordered);
  bool lto = false;
  for (const BinaryFile* file : files) {
    for (const CodeImage& image : file->images) {
      if (image.linker_input) continue;
      lto = lto || image.kind == ImageKind::lto_ir;
      if (!image.target) continue;
      if (image.kind == ImageKind::cubin) cubins.insert(*image.target);
      if (image.kind == ImageKind::ptx) ptx.insert(*image.target);
    }
  }
  std::vector<std::string> words;
  for (const Target& target : cubins) words.push_back(to_text(target));
  if (!ptx.empty()) words.push_back(fmt::format("{}PTX", cubins.empty() ? "" : "+"));
  for (const Target& target : ptx) words.push_back(to_text(target).substr(std::string_view("compute_").size()));
  if (lto) words.push_back("LTO-IR");
  return fmt::format("{}", fmt::join(words, " "));
}

// The loose cubins of a folder are one row.
bool is_loose(const BinaryFile& file) {
  return file.images.size() == 1 && file.images[0].kind == ImageKind::cubin && file.images[0].offset == 0 &&
         file.images[0].section.empty();
}

void add(DeviceAnswer& into, const DeviceAnswer& from) {
  into.native_modules += from.native_modules;
  into.jit_modules += from.jit_modules;
  into.missing_modules += from.missing_modules;
  into.software_fp4 += from.software_fp4;
  into.fp4_jit_modules += from.fp4_jit_modules;
  for (std::size_t i = 0; i < kKernelClasses; ++i) into.verdicts[i] += from.verdicts[i];
  for (const DeviceAnswer::Loaded& item : from.loaded) {
    const auto same = std::find_if(into.loaded.begin(), into.loaded.end(), [&](const DeviceAnswer::Loaded& old) {
      return old.target == item.target && old.jit == item.jit;
    });
    if (same == into.loaded.end()) {
      into.loaded.push_back(item);
    } else {
      same->modules += item.modules;
    }
  }
  for (const DeviceAnswer::Missing& item : from.missing) {
    const auto same = std::find_if(into.missing.begin(), into.missing.end(),
                                   [&](const DeviceAnswer::Missing& old) { return old.why == item.why; });
    if (same == into.missing.end()) {
      into.missing.push_back(item);
    } else {
      same->modules += item.modules;
    }
  }
}

template <class Files>
DeviceAnswer answer_of(const Files& files, ComputeCapability device) {
  DeviceAnswer all;
  for (const BinaryFile* file : files) add(all, answer_for(*file, device));
  const auto more = [](const auto& a, const auto& b) { return a.modules > b.modules; };
  std::stable_sort(all.loaded.begin(), all.loaded.end(), more);
  std::stable_sort(all.missing.begin(), all.missing.end(), more);
  return all;
}

// "OMMA 1536, F2FP to E2M1 12": what decides, the most frequent first.
std::string instructions_text(const SassCounts& counts) {
  constexpr std::size_t kShown = 3;
  std::vector<std::pair<std::uint64_t, SassClass>> found;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(SassClass::fp8_convert); ++i) {
    if (counts.of[i] > 0) found.emplace_back(counts.of[i], static_cast<SassClass>(i));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (const auto& [count, what] : found) {
    if (words.size() < kShown) words.push_back(fmt::format("{} {}", name(what), count));
  }
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, ", "));
}

// "12 native FP4, 40 none": kernels per verdict, the best first; those beyond `most` verdicts together.
std::string verdicts_text(const VerdictCounts& verdicts, std::size_t most = kKernelClasses) {
  std::vector<std::string> words;
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < kKernelClasses; ++i) {
    if (verdicts[i] == 0) continue;
    if (words.size() < most)
      words.push_back(fmt::format("{} {}", verdicts[i], name(static_cast<KernelClass>(i))));
    else
      others += verdicts[i];
  }
  if (others > 0) words.push_back(fmt::format("{} other", others));
  return words.empty() ? "no kernels" : fmt::format("{}", fmt::join(words, ", "));
}

std::size_t best_verdict(const KernelGroup& group) {
  const auto best = std::find_if(group.verdicts.begin(), group.verdicts.end(), [](std::uint64_t n) { return n > 0; });
  return static_cast<std::size_t>(best - group.verdicts.begin());
}

// What loads on a device, one group per name and target over all files; the best verdict first.
std::vector<KernelGroup> groups_on(const BinaryReport& report, ComputeCapability device) {
  std::map<std::tuple<std::string, ComputeCapability, Target::Kind>, KernelGroup> merged;
  for (const BinaryFile& file : report.files) {
    for (const std::size_t i : answer_for(file, device).groups) {
      const KernelGroup& from = file.groups[i];
      const auto [at, fresh] = merged.try_emplace({from.name, from.target.cc, from.target.kind}, from);
      if (fresh) continue;
      KernelGroup& into = at->second;
      into.kernels += from.kernels;
      for (std::size_t v = 0; v < kKernelClasses; ++v) into.verdicts[v] += from.verdicts[v];
      into.counts += from.counts;
      into.registers = std::max(into.registers, from.registers);
      into.spilling += from.spilling;
    }
  }
  std::vector<KernelGroup> groups;
  for (auto& [key, group] : merged) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(), [](const KernelGroup& a, const KernelGroup& b) {
    return std::tuple(best_verdict(a), b.kernels) < std::tuple(best_verdict(b), a.kernels);
  });
  return groups;
}

std::string number(std::uint64_t value) { return value == 0 ? "-" : std::to_string(value); }

std::string fp4_text(const Context& context, const DeviceAnswer& answer) {
  if (answer.native_fp4()) return paint(context.color_out, Style::green, "native");
  if (answer.fp4_jit_modules > 0) return paint(context.color_out, Style::yellow, "after JIT");
  if (answer.software_fp4 > 0) return paint(context.color_out, Style::red, "software");
  return "no";
}

nlohmann::json json_of(const VerdictCounts& verdicts) {
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t i = 0; i < kKernelClasses; ++i) {
    if (verdicts[i] > 0) out[std::string(name(static_cast<KernelClass>(i)))] = verdicts[i];
  }
  return out;
}

nlohmann::json json_of(const SassCounts& counts) {
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t i = 0; i < kSassClasses; ++i) {
    if (counts.of[i] > 0) out[std::string(name(static_cast<SassClass>(i)))] = counts.of[i];
  }
  return out;
}

nlohmann::json json_of(const DeviceAnswer& answer) {
  nlohmann::json loaded = nlohmann::json::array();
  for (const DeviceAnswer::Loaded& item : answer.loaded) {
    loaded.push_back({{"target", to_text(item.target)}, {"jit", item.jit}, {"modules", item.modules}});
  }
  nlohmann::json missing = nlohmann::json::array();
  for (const DeviceAnswer::Missing& item : answer.missing) {
    missing.push_back({{"why", item.why}, {"need", item.need}, {"modules", item.modules}});
  }
  return {{"native_modules", answer.native_modules},
          {"jit_modules", answer.jit_modules},
          {"missing_modules", answer.missing_modules},
          {"loaded", loaded},
          {"missing", missing},
          {"kernels", json_of(answer.verdicts)},
          {"native_fp4", answer.native_fp4()},
          {"fp4_jit_modules", answer.fp4_jit_modules},
          {"software_fp4_kernels", answer.software_fp4}};
}

nlohmann::json json_of(const CodeImage& image) {
  nlohmann::json out = {{"kind", name(image.kind)},       {"target", nullptr},
                        {"module", image.module},         {"offset", image.offset},
                        {"packing", name(image.packing)}, {"stored_bytes", image.stored_bytes},
                        {"bytes", image.bytes},           {"kernels", image.kernels}};
  if (image.target) out["target"] = to_text(*image.target);
  if (!image.target_sure) out["target_sure"] = false;
  if (image.linker_input) out["linker_input"] = true;
  if (!image.section.empty()) out["section"] = image.section;
  if (!image.source.empty()) out["source"] = image.source;
  if (!image.toolkit.empty()) out[image.kind == ImageKind::ptx ? "ptx_version" : "toolkit"] = image.toolkit;
  if (image.kind == ImageKind::cubin) out["verdicts"] = json_of(image.verdicts);
  if (image.kind == ImageKind::ptx) out["fp4_instructions"] = image.fp4_text;
  if (!image.problem.empty()) out["problem"] = image.problem;
  return out;
}

nlohmann::json json_of(const KernelGroup& group) {
  return {{"name", group.name},
          {"target", to_text(group.target)},
          {"kernels", group.kernels},
          {"verdicts", json_of(group.verdicts)},
          {"instructions", json_of(group.counts)},
          {"registers", group.registers},
          {"static_shared_bytes", group.static_shared},
          {"stack_bytes", group.stack},
          {"spilling", group.spilling},
          {"software_fp4", group.software_fp4},
          {"why", group.why}};
}

}  // namespace

BinaryView::BinaryView(const BinaryReport& report) : report_(report) {
  std::map<std::string, std::vector<const BinaryFile*>> folders;
  for (const BinaryFile& file : report.files) {
    if (is_loose(file)) folders[file.path.substr(0, file.path.rfind('/') + 1)].push_back(&file);
  }
  std::map<std::string, Library> rows;
  for (const BinaryFile& file : report.files) {
    const auto folder = folders.find(file.path.substr(0, file.path.rfind('/') + 1));
    const bool together = is_loose(file) && folder->second.size() > 3;
    const std::string key = together ? folder->first : file.path;
    Library& row = rows[key];
    row.files.push_back(&file);
    row.name = together ? fmt::format("{}*.cubin ({})", key, folder->second.size()) : key;
    row.bytes += file.bytes;
    for (const ModuleKind& kind : file.kinds) row.modules += kind.modules;
    for (const CodeImage& image : file.images) {
      if (image.linker_input) continue;
      row.cubins += image.kind == ImageKind::cubin ? 1 : 0;
      row.ptx += image.kind == ImageKind::ptx ? 1 : 0;
      if (image.kind == ImageKind::cubin) row.kernels += image.kernels;
    }
  }
  for (auto& [key, row] : rows) {
    row.targets = targets_text(row.files);
    libraries_.push_back(std::move(row));
  }
  std::stable_sort(libraries_.begin(), libraries_.end(), [](const Library& a, const Library& b) {
    return std::tuple(a.cubins + a.ptx > 0, a.bytes) > std::tuple(b.cubins + b.ptx > 0, b.bytes);
  });
}

bool BinaryView::has_code() const {
  return std::any_of(report_.files.begin(), report_.files.end(),
                     [](const BinaryFile& file) { return !file.images.empty(); });
}

std::vector<Error> BinaryView::problems() const {
  std::vector<Error> out = report_.problems;
  for (const BinaryFile& file : report_.files) out.insert(out.end(), file.problems.begin(), file.problems.end());
  return out;
}

DeviceAnswer BinaryView::answer(ComputeCapability device) const {
  std::vector<const BinaryFile*> files;
  for (const BinaryFile& file : report_.files) files.push_back(&file);
  return answer_of(files, device);
}

// The part of the paths that all rows share, up to a slash, tells nothing.
std::size_t BinaryView::prefix() const {
  if (libraries_.empty()) return 0;
  const std::string& first = libraries_[0].name;
  if (libraries_.size() == 1) return first.size() < 2 ? 0 : first.rfind('/', first.size() - 2) + 1;
  std::size_t same = first.size();
  for (const Library& row : libraries_) {
    const auto ends = std::mismatch(first.begin(), first.end(), row.name.begin(), row.name.end());
    same = std::min(same, static_cast<std::size_t>(ends.first - first.begin()));
  }
  return same == 0 ? 0 : first.rfind('/', same - 1) + 1;
}

std::string BinaryView::summary(const Context& context) const {
  std::uint64_t images = 0;
  for (const BinaryFile& file : report_.files) images += file.images.size();
  std::string out =
      fmt::format("{} in {} read; {} with GPU code, {}\n", bytes_text(static_cast<double>(report_.bytes_seen)),
                  plural(report_.files_seen, "file"), report_.files.size(), plural(images, "image"));
  if (!has_code()) return out + "no code for GPUs\n";
  Table table({{"LIBRARY"}, {"SIZE", true}, {"CUBINS", true}, {"PTX", true}, {"TARGETS"}});
  std::size_t rows = 0;
  for (const Library& row : libraries_) {
    if (++rows > kShownLibraries && context.verbosity <= 0) break;
    std::string rest = row.targets.empty() ? "-" : row.targets;
    bool first = true;
    while (!rest.empty() || first) {
      std::size_t cut = rest.size();
      if (cut > kTargetsWidth) {
        cut = rest.rfind(' ', kTargetsWidth);
        if (cut == std::string::npos || cut == 0) cut = kTargetsWidth;
      }
      const std::string part = rest.substr(0, cut);
      rest.erase(0, std::min(rest.size(), cut + 1));
      if (first) {
        table.row({tail(row.name.substr(prefix()), kNameWidth), bytes_text(static_cast<double>(row.bytes)),
                   number(row.cubins), number(row.ptx), part});
      } else {
        table.row({"", "", "", "", part});
      }
      first = false;
    }
  }
  out += "\n" + table.text(context);
  if (libraries_.size() > kShownLibraries && context.verbosity <= 0) {
    out += fmt::format("and {} more (-v lists all)\n", libraries_.size() - kShownLibraries);
  }
  return out;
}

std::string BinaryView::capabilities(const Context& context, const std::vector<DeviceProfile>& devices) const {
  Table table({{"DEVICE"}, {"NATIVE", true}, {"JIT", true}, {"NOTHING", true}, {"FP4"}, {"KERNELS THAT LOAD"}});
  for (const DeviceProfile& device : devices) {
    const DeviceAnswer total = answer(device.cc);
    table.row({device_name(device), number(total.native_modules), number(total.jit_modules),
               number(total.missing_modules), fp4_text(context, total), verdicts_text(total.verdicts, 2)});
  }
  return table.text(context) +
         "modules that load as machine code, after the driver compiled PTX, not at all; FP4: tensor\n"
         "instructions; --device NAME says why\n";
}

std::string BinaryView::device(const Context& context, const DeviceProfile& device) const {
  const DeviceAnswer total = answer(device.cc);
  const std::uint64_t all = total.native_modules + total.jit_modules + total.missing_modules;
  std::string out = paint(context.color_out, Style::bold, device_name(device)) + "\n";
  const auto list = [&](bool jit) {
    std::vector<std::string> words;
    for (const DeviceAnswer::Loaded& item : total.loaded) {
      if (item.jit == jit) words.push_back(fmt::format("{} x {}", item.modules, to_text(item.target)));
    }
    return fmt::format("{}", fmt::join(words, ", "));
  };
  out += fmt::format("loads     {} of {} as machine code{}\n", total.native_modules, plural(all, "module"),
                     total.native_modules > 0 ? ": " + list(false) : "");
  if (total.jit_modules > 0) {
    out += fmt::format("JIT       {} after the driver compiled PTX: {}\n", plural(total.jit_modules, "module"),
                       list(true));
  }
  for (std::size_t i = 0; i < total.missing.size() && (i < 3 || context.verbosity > 0); ++i) {
    const DeviceAnswer::Missing& item = total.missing[i];
    out += fmt::format("missing   {}: {}\n          would load: {}\n", plural(item.modules, "module"), item.why,
                       item.need);
  }
  if (total.missing.size() > 3 && context.verbosity <= 0) {
    out += fmt::format("          and {} more reasons (-v lists all)\n", total.missing.size() - 3);
  }
  if (total.native_modules > 0) out += "kernels   " + verdicts_text(total.verdicts) + "\n";
  out += "FP4       ";
  if (total.native_fp4()) {
    out += paint(context.color_out, Style::green,
                 fmt::format("native: {} with FP4 tensor instructions",
                             plural(total.verdicts[at(KernelClass::native_fp4)], "kernel")));
  } else if (total.fp4_jit_modules > 0) {
    out += fmt::format("after JIT: the PTX of {} has FP4 tensor instructions", plural(total.fp4_jit_modules, "module"));
  } else {
    out += paint(context.color_out, Style::red, "no: nothing that loads has FP4 tensor instructions");
  }
  out += "\n";
  // FP4 code that is there and stays unused here.
  std::map<std::string, std::pair<Target, std::uint64_t>> elsewhere;
  for (const BinaryFile& file : report_.files) {
    for (const KernelGroup& group : file.groups) {
      const std::uint64_t count = group.verdicts[at(KernelClass::native_fp4)];
      if (count == 0 || loads_on(group.target, device.cc).loads) continue;
      auto& entry = elsewhere[to_text(group.target)];
      entry.first = group.target;
      entry.second += count;
    }
  }
  if (!total.native_fp4()) {
    for (const auto& [text, entry] : elsewhere) {
      out += fmt::format("          {} for {}: {}\n", plural(entry.second, "FP4 kernel"), text,
                         loads_on(entry.first, device.cc).why);
    }
  }
  if (total.software_fp4 > 0) {
    out += fmt::format("          {} convert FP4 with ordinary arithmetic\n", plural(total.software_fp4, "kernel"));
  }
  if (libraries_.size() > 1) {
    Table table({{"LIBRARY"}, {"NATIVE", true}, {"JIT", true}, {"NOTHING", true}, {"FP4"}});
    std::size_t rows = 0;
    for (const Library& row : libraries_) {
      if (row.modules == 0 || (++rows > kShownLibraries && context.verbosity <= 0)) continue;
      const DeviceAnswer one = answer_of(row.files, device.cc);
      table.row({tail(row.name.substr(prefix()), kNameWidth), number(one.native_modules), number(one.jit_modules),
                 number(one.missing_modules), fp4_text(context, one)});
    }
    out += "\n" + table.text(context);
  }
  const std::vector<KernelGroup> groups = groups_on(report_, device.cc);
  if (groups.empty()) return out;
  Table table({{"KERNELS"}, {"TARGET"}, {"COUNT", true}, {"REGS", true}, {"SPILL", true}, {"VERDICT"}});
  for (std::size_t i = 0; i < groups.size() && (i < kShownGroups || context.verbosity > 0); ++i) {
    const KernelGroup& group = groups[i];
    table.row({head(group.name, kGroupWidth), to_text(group.target), std::to_string(group.kernels),
               group.registers < 0 ? "?" : std::to_string(group.registers), number(group.spilling),
               std::string(name(static_cast<KernelClass>(best_verdict(group))))});
    const std::string used = instructions_text(group.counts);
    if (used != "-") table.row({"  " + head(used, kGroupWidth - 2)});
  }
  out += "\n" + table.text(context);
  if (groups.size() > kShownGroups && context.verbosity <= 0) {
    out += fmt::format("and {} more (-v lists all)\n", groups.size() - kShownGroups);
  }
  return out;
}

std::string BinaryView::kernels(const Context& context, const std::string& pattern) const {
  constexpr std::size_t kShown = 50;
  std::size_t count = 0;
  std::string out;
  for (const BinaryFile& file : report_.files) {
    for (const NamedKernel& kernel : file.kernels) {
      if (++count > kShown && context.verbosity <= 0) continue;
      const KernelReport& r = kernel.report;
      const CodeImage& image = file.images[kernel.image];
      out += fmt::format("{}\n", kernel.name);
      out += fmt::format("  {}: {}; {}\n", image.target ? to_text(*image.target) : "?", name(r.verdict), r.why);
      out +=
          fmt::format("  {}; {} registers, {} B static shared, {} B stack{}, {} B code\n", instructions_text(r.counts),
                      r.registers < 0 ? "?" : std::to_string(r.registers), r.static_shared,
                      r.stack < 0 ? "?" : std::to_string(r.stack), r.spills() ? ", spills" : "", r.code_bytes);
    }
  }
  if (count > kShown && context.verbosity <= 0) out += fmt::format("and {} more (-v lists all)\n", count - kShown);
  return fmt::format("{} match '{}'\n", plural(count, "kernel"), pattern) + out;
}

std::string BinaryView::require_text(const Context& context, const std::string& require,
                                     const std::vector<DeviceProfile>& devices,
                                     const std::vector<std::string>& unmet) const {
  std::string out;
  for (const DeviceProfile& device : devices) {
    const bool bad = std::find(unmet.begin(), unmet.end(), device.slug) != unmet.end();
    out += fmt::format(
        "require {} on {}: {}\n", require, device_name(device),
        bad ? paint(context.color_out, Style::red, "not met") : paint(context.color_out, Style::green, "met"));
  }
  return out;
}

void BinaryView::put(nlohmann::json& out, const std::vector<DeviceProfile>& devices) const {
  out["bytes_read"] = report_.bytes_seen;
  out["files_read"] = report_.files_seen;
  out["files"] = nlohmann::json::array();
  for (const BinaryFile& file : report_.files) {
    nlohmann::json item = {{"path", file.path}, {"bytes", file.bytes}};
    item["images"] = nlohmann::json::array();
    for (const CodeImage& image : file.images) item["images"].push_back(json_of(image));
    item["groups"] = nlohmann::json::array();
    for (const KernelGroup& group : file.groups) item["groups"].push_back(json_of(group));
    item["devices"] = nlohmann::json::object();
    for (const DeviceProfile& device : devices) item["devices"][device.slug] = json_of(answer_for(file, device.cc));
    if (!file.kernels.empty()) {
      item["kernels"] = nlohmann::json::array();
      for (const NamedKernel& kernel : file.kernels) {
        const KernelReport& r = kernel.report;
        item["kernels"].push_back({{"name", kernel.name},
                                   {"mangled", r.name},
                                   {"image", kernel.image},
                                   {"verdict", name(r.verdict)},
                                   {"why", r.why},
                                   {"instructions", json_of(r.counts)},
                                   {"registers", r.registers},
                                   {"static_shared_bytes", r.static_shared},
                                   {"stack_bytes", r.stack},
                                   {"spills", r.spills()},
                                   {"software_fp4", r.software_fp4_pack || r.software_fp4_unpack},
                                   {"code_bytes", r.code_bytes}});
      }
    }
    out["files"].push_back(std::move(item));
  }
  out["devices"] = nlohmann::json::object();
  for (const DeviceProfile& device : devices) {
    out["devices"][device.slug] = json_of(answer(device.cc));
    out["devices"][device.slug]["compute_capability"] = fmt::format("{}.{}", device.cc.major, device.cc.minor);
  }
  out["problems"] = nlohmann::json::array();
  for (const Error& error : problems()) {
    out["problems"].push_back(
        {{"id", error.id}, {"what", error.what}, {"where", error.where}, {"need", error.need}, {"have", error.have}});
  }
}

}  // namespace tetrad::cli
