// Options of nvcc: -gencode arch=...,code=..., -arch=..., -code=...
#include <fmt/format.h>

#include <algorithm>

#include "binary/arch_list.hpp"
#include "core/text.hpp"
#include "device/quote.hpp"

namespace tetrad::binary {
namespace {

bool is_ptx(const Target& target) {
  return target.kind == Target::Kind::ptx || target.kind == Target::Kind::ptx_arch ||
         target.kind == Target::Kind::ptx_family;
}

Result<Target> target_word(std::string_view word, const Toolkit& toolkit) {
  Result<Target> target = parse_target(word);
  const bool form = word.starts_with("sm_") || word.starts_with("compute_");
  if (target && form) return target;
  std::vector<std::string> names;
  for (const std::string& name : toolkit.targets) {
    names.push_back("sm_" + name);
    names.push_back("compute_" + name);
  }
  return unknown_item(word, "a form of sm_90, sm_120a, compute_120f", core::did_you_mean(word, names));
}

// One `arch` with its codes. nvcc refuses machine code that the PTX cannot become.
Status add_pair(const std::string& arch, const std::vector<std::string>& codes, const std::string& from,
                const Toolkit& toolkit, ListReading& out) {
  Result<Target> source = target_word(arch, toolkit);
  if (!source) return source.error();
  const bool shorthand = !is_ptx(*source);
  if (shorthand && !codes.empty()) {
    return Error{ErrorKind::usage, "TE0883", "arch and code do not go together", from, "arch=compute_... beside code=",
                 "arch=" + arch,   {},       "arch=" + to_text(ptx_of(*source))};
  }
  if (shorthand) {
    out.images.push_back({*source, ptx_of(*source), from});
    out.images.push_back({ptx_of(*source), ptx_of(*source), from});
    return ok();
  }
  if (codes.empty()) out.images.push_back({*source, *source, from});
  for (const std::string& code : codes) {
    if (code.starts_with("lto_")) {
      out.notes.push_back(
          fmt::format("{}: intermediate code for the linker, which builds the machine code later", code));
      continue;
    }
    Result<Target> target = target_word(code, toolkit);
    if (!target) return target.error();
    const bool same_chip = source->kind != Target::Kind::ptx_arch || ptx_of(*target) == *source;
    if (!loads_on(*source, target->cc).loads || !same_chip) {
      return Error{ErrorKind::usage,
                   "TE0883",
                   "arch and code do not go together",
                   from,
                   fmt::format("machine code that PTX for {} can become", arch),
                   code,
                   {},
                   "arch=" + to_text(ptx_of(*target))};
    }
    out.images.push_back({*target, is_ptx(*target) ? *target : *source, from});
  }
  return ok();
}

std::vector<std::string> codes_of(std::string text) {
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == '"' || c == '\''; });
  return split(text, ",");
}

}  // namespace

Result<ListReading> read_nvcc(std::string_view text, const Toolkit& toolkit, std::optional<ComputeCapability> here) {
  ListReading out;
  std::string arch;
  std::string codes;
  std::string* waits = nullptr;  // an option whose value is the next word
  std::string gencode;
  std::vector<std::string> pairs;
  for (std::string word : split(text, " \t\n;")) {
    std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
    if (waits != nullptr) {
      if (waits == &gencode) {
        pairs.push_back(word);
      } else {
        *waits = word;
      }
      waits = nullptr;
      continue;
    }
    const std::size_t equal = word.find('=');
    const std::string option = word.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : word.substr(equal + 1);
    if (option == "-gencode" || option == "--generate-code") {
      if (value.empty()) {
        waits = &gencode;
      } else {
        pairs.push_back(value);
      }
    } else if (option == "-arch" || option == "--gpu-architecture") {
      waits = value.empty() ? &arch : nullptr;
      arch = value;
    } else if (option == "-code" || option == "--gpu-code") {
      waits = value.empty() ? &codes : nullptr;
      codes = value;
    } else if (word.starts_with("arch=")) {
      pairs.push_back(word);
    } else if (word.starts_with("sm_") || word.starts_with("compute_")) {
      if (Status status = add_pair(word, {}, word, toolkit, out); !status) return status.error();
    } else {
      return unknown_item(word, "-gencode arch=compute_120a,code=sm_120a, -arch=sm_120a or -code=...");
    }
  }
  if (waits != nullptr) return unknown_item("", "a value after the last option");
  if (!arch.empty()) {
    Result<bool> expanded = expand_word(arch, toolkit, here, out);
    if (!expanded) return expanded.error();
    if (!*expanded) {
      if (Status status = add_pair(arch, codes_of(codes), "-arch=" + arch, toolkit, out); !status)
        return status.error();
    }
  } else if (!codes.empty()) {
    return unknown_item("-code=" + codes, "-arch=compute_... beside -code");
  }
  for (const std::string& pair : pairs) {
    const std::size_t code = pair.find(",code=");
    if (!pair.starts_with("arch=") || code == std::string::npos) {
      return unknown_item(pair, "arch=compute_120a,code=sm_120a or arch=...,code=[sm_120f,compute_120f]");
    }
    Status status = add_pair(pair.substr(5, code - 5), codes_of(pair.substr(code + 6)), pair, toolkit, out);
    if (!status) return status.error();
  }
  return out;
}

}  // namespace tetrad::binary
