#include <fmt/format.h>

#include <array>

#include "tetrad/candidate.hpp"
#include "tetrad/plan.hpp"
#include "tetrad/verdict.hpp"

namespace tetrad {
namespace {

struct ReasonRow {
  Reason reason;
  std::string_view id;
  std::string_view name;
};

constexpr std::array kReasons{
    ReasonRow{Reason::eligible, "TP0000", "eligible"},
    ReasonRow{Reason::excluded, "TP0101", "excluded"},
    ReasonRow{Reason::not_forced, "TP0102", "not_forced"},
    ReasonRow{Reason::reference_only, "TP0103", "reference_only"},
    ReasonRow{Reason::not_built, "TP0104", "not_built"},
    ReasonRow{Reason::unknown_fact, "TP0105", "unknown_fact"},
    ReasonRow{Reason::target_mismatch, "TP0201", "target_mismatch"},
    ReasonRow{Reason::missing_feature, "TP0202", "missing_feature"},
    ReasonRow{Reason::shared_memory, "TP0203", "shared_memory"},
    ReasonRow{Reason::activation_type, "TP0301", "activation_type"},
    ReasonRow{Reason::weight_type, "TP0302", "weight_type"},
    ReasonRow{Reason::output_type, "TP0303", "output_type"},
    ReasonRow{Reason::accuracy, "TP0304", "accuracy"},
    ReasonRow{Reason::input_scale, "TP0305", "input_scale"},
    ReasonRow{Reason::layout, "TP0306", "layout"},
    ReasonRow{Reason::m_range, "TP0401", "m_range"},
    ReasonRow{Reason::n_multiple, "TP0402", "n_multiple"},
    ReasonRow{Reason::k_multiple, "TP0403", "k_multiple"},
    ReasonRow{Reason::grouped, "TP0404", "grouped"},
    ReasonRow{Reason::bias, "TP0405", "bias"},
    ReasonRow{Reason::workspace, "TP0406", "workspace"},
    ReasonRow{Reason::determinism, "TP0407", "determinism"},
    ReasonRow{Reason::not_probed, "TP0501", "not_probed"},
    ReasonRow{Reason::probe_failed, "TP0502", "probe_failed"},
    ReasonRow{Reason::slower, "TP0601", "slower"},
};
static_assert(kReasons.size() == static_cast<std::size_t>(Reason::slower) + 1);

const ReasonRow& row(Reason reason) { return kReasons[static_cast<std::size_t>(reason)]; }

}  // namespace

std::string_view id(Reason reason) { return row(reason).id; }
std::string_view name(Reason reason) { return row(reason).name; }

std::string_view name(Evidence evidence) {
  constexpr std::array<std::string_view, 6> kNames{"declared", "built",  "disassembled",
                                                   "emulated", "probed", "measured"};
  return kNames[static_cast<std::size_t>(evidence)];
}

std::string_view name(Accuracy accuracy) {
  constexpr std::array<std::string_view, 3> kNames{"exact_sum", "fp32_sum", "rounded"};
  return kNames[static_cast<std::size_t>(accuracy)];
}

std::string_view name(Basis basis) {
  constexpr std::array<std::string_view, 4> kNames{"none", "assumed", "fitted", "measured"};
  return kNames[static_cast<std::size_t>(basis)];
}

}  // namespace tetrad
