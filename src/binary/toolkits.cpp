#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/embedded.hpp"
#include "core/text.hpp"
#include "device/quote.hpp"
#include "tetrad/arch_list.hpp"

namespace tetrad {

namespace embedded {
std::span<const core::EmbeddedFile> target_files();
}

namespace {

constexpr std::array<std::pair<TensorOp, std::string_view>, 7> kOps = {{{TensorOp::mma_bf16, "mma_bf16"},
                                                                        {TensorOp::mma_fp8, "mma_fp8"},
                                                                        {TensorOp::mma_f8f6f4, "mma_f8f6f4"},
                                                                        {TensorOp::mma_nvfp4, "mma_nvfp4"},
                                                                        {TensorOp::cvt_e2m1, "cvt_e2m1"},
                                                                        {TensorOp::tcgen05_nvfp4, "tcgen05_nvfp4"},
                                                                        {TensorOp::wgmma, "wgmma"}}};

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> out;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) out.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

std::vector<Toolkit> read_table() {
  std::vector<Toolkit> out;
  for (const core::EmbeddedFile& file : embedded::target_files()) {
    std::string_view rest = file.text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::vector<std::string> words = words_of(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (words.empty() || words[0] == "#") continue;
      if (words[0] == "toolkit" && words.size() == 4) out.push_back({words[1], words[2], words[3], {}, {}});
      if (out.empty()) continue;
      if (words[0] == "targets") out.back().targets.assign(words.begin() + 1, words.end());
      if (words[0] != "accepts" || words.size() < 2) continue;
      for (const auto& [op, text] : kOps) {
        if (text == words[1]) out.back().accepts.emplace_back(op, std::vector(words.begin() + 2, words.end()));
      }
    }
  }
  return out;
}

// The target's name as machine code: "compute_120f" -> "120f".
std::string code_name(const Target& target) {
  const std::string text = to_text(target);
  return text.starts_with("compute_") ? text.substr(8) : text;
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

std::string_view name(TensorOp op) {
  for (const auto& [known, text] : kOps) {
    if (known == op) return text;
  }
  return "";
}

bool Toolkit::knows(const Target& target) const { return contains(targets, code_name(target)); }

bool Toolkit::takes(TensorOp op, const Target& target) const {
  return std::any_of(accepts.begin(), accepts.end(),
                     [&](const auto& row) { return row.first == op && contains(row.second, code_name(target)); });
}

const std::vector<Toolkit>& toolkits() {
  static const std::vector<Toolkit> table = read_table();
  return table;
}

Result<Toolkit> find_toolkit(std::string_view version) {
  const std::vector<Toolkit>& table = toolkits();
  std::string_view text = version;
  if (text.starts_with('V') || text.starts_with('v')) text.remove_prefix(1);
  const bool numbers = !text.empty() && text.size() <= 16 &&
                       std::all_of(text.begin(), text.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  if (numbers) {
    for (auto it = table.rbegin(); it != table.rend(); ++it) {
      if (text == it->release || text.starts_with(it->release + ".") ||
          it->release.starts_with(std::string(text) + ".")) {
        return *it;
      }
    }
  }
  std::string list;
  for (const Toolkit& toolkit : table) list += (list.empty() ? "" : ", ") + toolkit.release;
  return Error{ErrorKind::input,
               "TE0880",
               "no facts about this CUDA release",
               "--cuda",
               "one of " + list,
               device::quote(version),
               {},
               {}};
}

std::string first_release(const Target& target) {
  for (const Toolkit& toolkit : toolkits()) {
    if (toolkit.knows(target)) return toolkit.release;
  }
  return "";
}

}  // namespace tetrad
