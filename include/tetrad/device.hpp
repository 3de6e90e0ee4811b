// A device as a value: every fact with its source, unknown facts stay unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tetrad/error.hpp"
#include "tetrad/target.hpp"
#include "tetrad/types.hpp"

namespace tetrad {

// Where a value comes from; a better origin overrides a worse one.
enum class Origin : std::uint8_t { unknown, data_file, driver, measured };

// How sure a fact from a data file is.
enum class Certainty : std::uint8_t { unknown, memory, listed, third_party_measured, vendor, measured_here };

// One fact. `value` is empty when nobody knows; an estimate that needs it then says so.
template <class T>
struct Fact {
  std::optional<T> value;
  Origin origin = Origin::unknown;
  Certainty certainty = Certainty::unknown;
  std::string source;  // URL, file, or command with its date
  std::string note;    // contradictions that were weighed, caveats

  bool known() const { return value.has_value(); }
  friend bool operator==(const Fact&, const Fact&) = default;
};

// Names as in the files: "unknown", "data_file", "driver", "measured"; "vendor", "third_party_measured", ...
std::string_view name(Origin origin);
std::string_view name(Certainty certainty);

// Abilities that kernels require. An architecture number only finds a loadable binary.
enum class Feature : std::uint8_t {
  cp_async,     // asynchronous copies to shared memory (8.0+)
  mma_bf16,     // mma.sync bf16/fp16 (8.0+)
  mma_fp8,      // mma.sync e4m3 (8.9+)
  tma,          // bulk tensor copies (9.0+)
  wgmma,        // warpgroup MMA (9.0 only)
  tcgen05,      // tensor memory and its MMA, block scaled FP4 included (10.x, 11.0)
  mma_nvfp4,    // mma.sync kind::mxf4nvf4 with UE4M3 scales per 16 (12.x)
  cvt_e2m1,     // hardware conversion to and from e2m1 (10.0+)
  host_avx2,    // AVX2, FMA and F16C on the CPU
  host_avx512,  // AVX-512 F, BW, DQ, VL
  host_vnni,    // AVX-512 VNNI or AVX-VNNI
};
std::string_view name(Feature feature);

// Kinds of arithmetic that have their own peak rate.
enum class Unit : std::uint8_t { fp32, bf16, fp8, int8, nvfp4 };
std::string_view name(Unit unit);

struct DeviceProfile {
  std::string name;                         // "NVIDIA GB10"
  std::string slug;                         // "gb10", the file's stem
  std::vector<std::string> aliases;         // "dgx-spark"
  bool host = false;                        // the CPU this program runs on
  ComputeCapability cc;                     // {0,0} for a CPU
  std::string cc_source;                    // empty for a CPU
  Fact<std::int64_t> sms;                   // streaming multiprocessors; threads for a CPU
  Fact<std::int64_t> smem_per_sm;           // bytes
  Fact<std::int64_t> smem_per_block_optin;  // bytes
  Fact<std::int64_t> registers_per_sm;      // 32-bit registers
  Fact<std::int64_t> l2_bytes;
  Fact<std::int64_t> memory_bytes;
  Fact<double> boost_clock_hz;
  Fact<double> bandwidth_spec;  // bytes/s, data sheet
  Fact<double> bandwidth_read;  // bytes/s, measured read
  Fact<double> peak_fp32;       // FLOP/s, dense, multiply-add = 2
  Fact<double> peak_bf16;       // tensor, fp32 accumulation
  Fact<double> peak_fp8;
  Fact<double> peak_int8;
  Fact<double> peak_nvfp4;
  Fact<bool> unified_memory;
  std::vector<Feature> features;  // derived from cc (GPU) or detected (CPU)

  bool has(Feature feature) const;
  const Fact<double>& peak(Unit unit) const;
  // Measured read bandwidth if known, else the data sheet's.
  const Fact<double>& bandwidth() const;
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

// Calls visit(name, fact) for every fact, in the order and by the names of the JSON files: the unit is in the name.
// `fact` is a Fact of std::int64_t, double or bool; `Device` a (const) DeviceProfile.
template <class Device, class Visit>
void for_each_fact(Device& device, Visit&& visit) {
  visit(std::string_view("sms"), device.sms);
  visit(std::string_view("smem_per_sm_bytes"), device.smem_per_sm);
  visit(std::string_view("smem_per_block_optin_bytes"), device.smem_per_block_optin);
  visit(std::string_view("registers_per_sm"), device.registers_per_sm);
  visit(std::string_view("l2_bytes"), device.l2_bytes);
  visit(std::string_view("memory_bytes"), device.memory_bytes);
  visit(std::string_view("boost_clock_hz"), device.boost_clock_hz);
  visit(std::string_view("bandwidth_spec_bytes_per_s"), device.bandwidth_spec);
  visit(std::string_view("bandwidth_read_bytes_per_s"), device.bandwidth_read);
  visit(std::string_view("peak_fp32_flop_per_s"), device.peak_fp32);
  visit(std::string_view("peak_bf16_flop_per_s"), device.peak_bf16);
  visit(std::string_view("peak_fp8_flop_per_s"), device.peak_fp8);
  visit(std::string_view("peak_int8_op_per_s"), device.peak_int8);
  visit(std::string_view("peak_nvfp4_flop_per_s"), device.peak_nvfp4);
  visit(std::string_view("unified_memory"), device.unified_memory);
}

// Facts derived from a capability, by the table of docs/devices.md (features, shared memory limits).
std::vector<Feature> features_of(ComputeCapability cc);

// JSON <-> profile; schema "tetrad.device/1.0" (docs/devices.md). Errors (input) name the field, need and have: no
// JSON, a file of more than 1 MiB or nested too deep, unknown, repeated, missing or ill-typed fields, values out of
// range, a value without a source, an unknown value without a note, a slug that is not the stem of `file_name` (where
// that ends in .json). device_to_json gives text that reads back as an equal profile.
Result<DeviceProfile> device_from_json(std::string_view json, std::string_view file_name);
std::string device_to_json(const DeviceProfile& device);

// The devices compiled into the library, sorted by slug.
const std::vector<DeviceProfile>& known_devices();
// Finds by slug, alias or name, case-insensitively, among `devices` (by default the built-in ones); "host" and "cpu"
// give host_device(). Error (input): unknown, with up to 3 names at edit distance <= 3.
Result<DeviceProfile> find_device(std::string_view name);
Result<DeviceProfile> find_device(std::string_view name, const std::vector<DeviceProfile>& devices);
// Reads every *.json of a folder over the built-in ones (same slug replaces). Errors (input): no such folder, no
// readable file, what device_from_json refuses, one slug or alias for two devices.
Result<std::vector<DeviceProfile>> load_devices(const std::string& folder);

// The CPU this program runs on, slug "host": features detected, memory and caches read from the system, `sms` the
// threads that this process may use, `l2_bytes` the last cache; bandwidth and rates are unknown until measured
// (tetrad/host.hpp).
DeviceProfile host_device();

}  // namespace tetrad
