// Names and derived facts of a profile.
#include "tetrad/device.hpp"

#include <algorithm>

namespace tetrad {

std::string_view name(Origin origin) {
  switch (origin) {
    case Origin::unknown:
      return "unknown";
    case Origin::data_file:
      return "data_file";
    case Origin::driver:
      return "driver";
    case Origin::measured:
      return "measured";
  }
  return "";
}

std::string_view name(Certainty certainty) {
  switch (certainty) {
    case Certainty::unknown:
      return "unknown";
    case Certainty::memory:
      return "memory";
    case Certainty::listed:
      return "listed";
    case Certainty::third_party_measured:
      return "third_party_measured";
    case Certainty::vendor:
      return "vendor";
    case Certainty::measured_here:
      return "measured_here";
  }
  return "";
}

std::string_view name(Feature feature) {
  switch (feature) {
    case Feature::cp_async:
      return "cp_async";
    case Feature::mma_bf16:
      return "mma_bf16";
    case Feature::mma_fp8:
      return "mma_fp8";
    case Feature::tma:
      return "tma";
    case Feature::wgmma:
      return "wgmma";
    case Feature::tcgen05:
      return "tcgen05";
    case Feature::mma_nvfp4:
      return "mma_nvfp4";
    case Feature::cvt_e2m1:
      return "cvt_e2m1";
    case Feature::host_avx2:
      return "host_avx2";
    case Feature::host_avx512:
      return "host_avx512";
    case Feature::host_vnni:
      return "host_vnni";
  }
  return "";
}

std::string_view name(Unit unit) {
  switch (unit) {
    case Unit::fp32:
      return "fp32";
    case Unit::bf16:
      return "bf16";
    case Unit::fp8:
      return "fp8";
    case Unit::int8:
      return "int8";
    case Unit::nvfp4:
      return "nvfp4";
  }
  return "";
}

bool DeviceProfile::has(Feature feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

const Fact<double>& DeviceProfile::peak(Unit unit) const {
  switch (unit) {
    case Unit::fp32:
      return peak_fp32;
    case Unit::bf16:
      return peak_bf16;
    case Unit::fp8:
      return peak_fp8;
    case Unit::int8:
      return peak_int8;
    case Unit::nvfp4:
      return peak_nvfp4;
  }
  return peak_fp32;
}

const Fact<double>& DeviceProfile::bandwidth() const {
  return bandwidth_read.known() ? bandwidth_read : bandwidth_spec;
}

std::vector<Feature> features_of(ComputeCapability cc) {
  std::vector<Feature> features;
  const auto from = [&](ComputeCapability first, Feature feature) {
    if (cc >= first) features.push_back(feature);
  };
  const auto major = [&](std::initializer_list<int> majors, Feature feature) {
    if (std::find(majors.begin(), majors.end(), cc.major) != majors.end()) features.push_back(feature);
  };
  from({8, 0}, Feature::cp_async);
  from({8, 0}, Feature::mma_bf16);
  from({8, 9}, Feature::mma_fp8);
  from({9, 0}, Feature::tma);
  major({9}, Feature::wgmma);
  major({10, 11}, Feature::tcgen05);
  major({12}, Feature::mma_nvfp4);
  from({10, 0}, Feature::cvt_e2m1);
  return features;
}

}  // namespace tetrad
