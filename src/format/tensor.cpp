#include "tetrad/tensor.hpp"

namespace tetrad {

QuantizedTensor QuantizedTensor::row_slice(std::int64_t begin, std::int64_t end) const {
  QuantizedTensor slice = *this;
  slice.rows = end - begin;
  slice.codes = codes + begin * code_stride;
  slice.scales = scales + begin * scale_stride;
  return slice;
}

QuantizedTensor QuantizedTensor::k_slice(std::int64_t begin, std::int64_t end) const {
  QuantizedTensor slice = *this;
  slice.k = end - begin;
  slice.codes = codes + begin / 2;
  slice.scales = scales + begin / kBlock;
  return slice;
}

}  // namespace tetrad
