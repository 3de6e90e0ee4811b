#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <tuple>

#include "binary/elf.hpp"
#include "binary/kernel_name.hpp"
#include "binary/ptx.hpp"
#include "binary/scan.hpp"
#include "core/text.hpp"

namespace tetrad::binary {
namespace {

constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kCubin = 2;
constexpr std::uint16_t kLtoIr = 8;

ImageKind kind_of(std::uint16_t kind) {
  switch (kind) {
    case kPtx:
      return ImageKind::ptx;
    case kCubin:
      return ImageKind::cubin;
    case kLtoIr:
      return ImageKind::lto_ir;
    default:
      return ImageKind::other;
  }
}

bool has_suffix(const std::optional<Target>& target) {
  return target && (target->kind == Target::Kind::arch || target->kind == Target::Kind::family);
}

std::tuple<ComputeCapability, Target::Kind> order(const Target& target) { return {target.cc, target.kind}; }
bool before(const Target& a, const Target& b) { return order(a) < order(b); }

void insert(std::vector<Target>& targets, const Target& target) {
  const auto at = std::lower_bound(targets.begin(), targets.end(), target, before);
  if (at == targets.end() || !(*at == target)) targets.insert(at, target);
}

void merge(KernelGroup& into, const KernelGroup& from) {
  const auto best = [](const VerdictCounts& verdicts) {
    return std::find_if(verdicts.begin(), verdicts.end(), [](std::uint64_t n) { return n > 0; }) - verdicts.begin();
  };
  if (into.kernels == 0 || best(from.verdicts) < best(into.verdicts)) into.why = from.why;
  into.kernels += from.kernels;
  for (std::size_t i = 0; i < kKernelClasses; ++i) into.verdicts[i] += from.verdicts[i];
  into.counts += from.counts;
  into.registers = std::max(into.registers, from.registers);
  into.static_shared = std::max(into.static_shared, from.static_shared);
  into.stack = std::max(into.stack, from.stack);
  into.spilling += from.spilling;
  into.software_fp4 += from.software_fp4;
}

KernelGroup group_of(const KernelReport& kernel, const Target& target) {
  KernelGroup group;
  group.target = target;
  group.kernels = 1;
  group.verdicts[static_cast<std::size_t>(kernel.verdict)] = 1;
  group.counts = kernel.counts;
  group.registers = kernel.registers;
  group.static_shared = kernel.static_shared;
  group.stack = kernel.stack;
  group.spilling = kernel.spills() ? 1 : 0;
  group.software_fp4 = kernel.software_fp4_pack || kernel.software_fp4_unpack ? 1 : 0;
  group.why = kernel.why;
  return group;
}

}  // namespace

FileJob::FileJob(std::string path, std::string pattern, std::function<void(BinaryFile&&)> done)
    : path_(std::move(path)), pattern_(std::move(pattern)), done_(std::move(done)) {
  file_.path = path_;
}

FileJob::~FileJob() {
  finish();
  done_(std::move(file_));
}

std::uint32_t FileJob::new_module() {
  const std::lock_guard lock(mutex_);
  return modules_++;
}

void FileJob::add_bytes(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  file_.bytes += bytes;
}

void FileJob::set_linked() {
  const std::lock_guard lock(mutex_);
  linked_ = true;
}

void FileJob::add_problem(const Error& error) {
  constexpr std::size_t kMost = 100;
  const std::lock_guard lock(mutex_);
  if (file_.problems.size() < kMost) file_.problems.push_back(error);
}

void FileJob::add_image(const std::shared_ptr<FileJob>& self, Pool& pool, const FatbinEntry& entry, Bytes payload,
                        std::uint32_t module, std::string section) {
  std::size_t index = 0;
  {
    const std::lock_guard lock(self->mutex_);
    index = self->file_.images.size();
    CodeImage& image = self->file_.images.emplace_back();
    image.kind = kind_of(entry.kind);
    image.target = entry.target;
    image.offset = entry.offset;
    image.section = std::move(section);
    image.module = module;
    image.packing = entry.packing;
    image.stored_bytes = entry.stored;
    image.bytes = entry.packing == ImagePacking::none ? entry.stored : entry.unpacked;
    image.source = entry.source;
    self->groups_.emplace_back();
    self->has_code_.push_back(image.kind == ImageKind::lto_ir);
  }
  if (kind_of(entry.kind) != ImageKind::cubin && kind_of(entry.kind) != ImageKind::ptx) return;
  const auto copy = std::make_shared<const std::vector<std::byte>>(payload.begin(), payload.end());
  const std::uint64_t held = payload.size() + std::min(entry.unpacked, kMaxUnpacked);
  pool.submit(held, [self, entry, copy, index] { self->read_image(entry, Bytes(*copy), index); });
}

void FileJob::read_image(const FatbinEntry& entry, Bytes payload, std::size_t index) {
  CodeImage image;
  {
    const std::lock_guard lock(mutex_);
    image = file_.images[index];
  }
  const std::string where = image.section.empty() ? path_ : path_ + ": " + image.section;
  try {
    const Result<Unpacked> unpacked = unpack(entry, payload, where);
    if (unpacked) {
      read_code(image, unpacked->bytes, entry, index);
    } else {
      image.problem = unpacked.error().what;
      add_problem(unpacked.error());
    }
  } catch (const std::bad_alloc&) {
    image.problem = "no memory to read it";
    add_problem(refuse("TE0808", "no memory to read an image", where, fmt::format("{} B", image.bytes)));
  }
  const std::lock_guard lock(mutex_);
  file_.images[index] = std::move(image);
}

void FileJob::read_code(CodeImage& image, Bytes bytes, const FatbinEntry& entry, std::size_t index) {
  if (image.kind == ImageKind::ptx) {
    const PtxFacts facts = read_ptx(bytes);
    if (facts.target) image.target = facts.target;
    image.toolkit = facts.version;
    image.kernels = facts.kernels;
    image.fp4_text = facts.fp4;
    const std::lock_guard lock(mutex_);
    has_code_[index] = facts.kernels > 0;
    return;
  }
  Result<CubinReport> report = read_cubin(bytes);
  if (!report) {
    Error error = report.error();
    const std::string inside = fmt::format("{}: image at byte {}", path_, entry.offset);
    error.where = error.where.empty() ? inside : inside + ": " + error.where;
    image.problem = error.what;
    add_problem(error);
    return;
  }
  if (observer_) observer_(fmt::format("{}: image at byte {}", path_, entry.offset), bytes, *report);
  image.target = report->target;
  image.target_sure = report->target_sure;
  // Where the machine code's own words leave it open, the container may know the suffix.
  if (!report->target_sure && has_suffix(entry.target)) {
    image.target = entry.target;
    image.target_sure = true;
  }
  image.linker_input = report->relocatable;
  image.toolkit = report->toolkit;
  image.kernels = report->kernels.size();
  image.counts = report->total;
  std::map<std::string, KernelGroup, std::less<>> groups;
  std::vector<NamedKernel> named;
  for (KernelReport& kernel : report->kernels) {
    ++image.verdicts[static_cast<std::size_t>(kernel.verdict)];
    std::string base = template_name(kernel.name);
    merge(groups[base], group_of(kernel, *image.target));
    if (pattern_.empty()) continue;
    std::string text = readable_name(kernel.name);
    if (core::glob_match(pattern_, kernel.name) || core::glob_match(pattern_, text)) {
      named.push_back({std::move(text), index, std::move(kernel)});
    }
  }
  std::vector<KernelGroup> list;
  list.reserve(groups.size());
  for (auto& [base, group] : groups) {
    group.name = base;
    group.target = *image.target;
    list.push_back(std::move(group));
  }
  const std::lock_guard lock(mutex_);
  has_code_[index] = report->code_bytes > 0;
  groups_[index] = std::move(list);
  for (NamedKernel& kernel : named) file_.kernels.push_back(std::move(kernel));
}

// Modules of equal offers become one kind, groups of equal name, target and kind one group.
void FileJob::finish() {
  std::vector<ModuleKind> modules(modules_);
  std::vector<bool> live(modules_, false);
  std::vector<bool> inputs(modules_, false);
  for (const CodeImage& image : file_.images) {
    if (linked_ && (image.linker_input || image.section == "__nv_relfatbin")) inputs[image.module] = true;
  }
  for (CodeImage& image : file_.images) image.linker_input = inputs[image.module];
  for (std::size_t i = 0; i < file_.images.size(); ++i) {
    const CodeImage& image = file_.images[i];
    ModuleKind& module = modules[image.module];
    if (!image.problem.empty() || image.linker_input) continue;
    live[image.module] = live[image.module] || has_code_[i];
    module.kernels = std::max(module.kernels, image.kernels);
    if (!image.target) continue;
    if (image.kind == ImageKind::cubin) insert(module.cubins, *image.target);
    if (image.kind == ImageKind::ptx) {
      insert(module.ptx, *image.target);
      module.fp4_text = module.fp4_text || image.fp4_text;
    }
  }
  std::vector<std::size_t> kind_of_module(modules_, 0);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (!live[i]) continue;
    const ModuleKind& module = modules[i];
    const auto same = std::find_if(file_.kinds.begin(), file_.kinds.end(), [&](const ModuleKind& kind) {
      return kind.cubins == module.cubins && kind.ptx == module.ptx && kind.fp4_text == module.fp4_text;
    });
    kind_of_module[i] = static_cast<std::size_t>(same - file_.kinds.begin());
    if (same == file_.kinds.end()) {
      file_.kinds.push_back(module);
      file_.kinds.back().modules = 1;
    } else {
      ++same->modules;
      same->kernels += module.kernels;
    }
  }
  std::map<std::tuple<std::string_view, ComputeCapability, Target::Kind, std::size_t>, KernelGroup> merged;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (file_.images[i].linker_input) continue;
    const std::size_t kind = kind_of_module[file_.images[i].module];
    for (const KernelGroup& group : groups_[i]) {
      KernelGroup& into = merged[{group.name, group.target.cc, group.target.kind, kind}];
      merge(into, group);
      into.name = group.name;
      into.target = group.target;
      into.kind = kind;
    }
  }
  for (auto& [key, group] : merged) file_.groups.push_back(std::move(group));
  groups_.clear();
  std::stable_sort(file_.groups.begin(), file_.groups.end(),
                   [](const KernelGroup& a, const KernelGroup& b) { return a.kernels > b.kernels; });
  std::stable_sort(file_.kernels.begin(), file_.kernels.end(), [](const NamedKernel& a, const NamedKernel& b) {
    return std::tie(a.name, a.image, a.report.name) < std::tie(b.name, b.image, b.report.name);
  });
  std::stable_sort(file_.problems.begin(), file_.problems.end(),
                   [](const Error& a, const Error& b) { return std::tie(a.where, a.id) < std::tie(b.where, b.id); });
}

}  // namespace tetrad::binary
