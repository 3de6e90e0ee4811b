// A "no" is a value: which rule, what it needs, what is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tetrad {

// The closed list of reasons, in the order in which the checks run: the first "no" is the verdict. `unknown_fact` is
// the exception: the checks after it still run, and it is the verdict only where none of them says no. Ids (TP....)
// never change meaning.
enum class Reason : std::uint8_t {
  eligible,         // TP0000
  excluded,         // TP0101 by the caller
  not_forced,       // TP0102 another kernel is forced
  reference_only,   // TP0103 an oracle, chosen only when forced
  not_built,        // TP0104 this build holds no code for it ("this build" plans)
  unknown_fact,     // TP0105 a fact of the device that the check needs is unknown
  target_mismatch,  // TP0201 its code does not load on the device
  missing_feature,  // TP0202
  shared_memory,    // TP0203 more per block than the device allows
  activation_type,  // TP0301
  weight_type,      // TP0302
  output_type,      // TP0303
  accuracy,         // TP0304 activations less precise than the problem allows
  input_scale,      // TP0305 needs a static activation scale
  layout,           // TP0306 the packed weights have another layout
  m_range,          // TP0401
  n_multiple,       // TP0402
  k_multiple,       // TP0403
  grouped,          // TP0404
  bias,             // TP0405
  workspace,        // TP0406
  determinism,      // TP0407
  not_probed,       // TP0501 not yet proven on this device
  probe_failed,     // TP0502
  slower,           // TP0601 eligible, but another is expected to be faster
};

// "TP0203"
std::string_view id(Reason reason);
// "shared_memory"
std::string_view name(Reason reason);

struct Verdict {
  Reason reason = Reason::eligible;
  std::string need;  // "102400 B"; empty if eligible
  std::string have;  // "101376 B"
  bool eligible() const { return reason == Reason::eligible || reason == Reason::slower; }
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

}  // namespace tetrad
