// A whole .safetensors file of any bytes: the reader answers with tensors that keep its promises, or with an error
// value.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/json_text.hpp"
#include "checkpoint/safetensors.hpp"
#include "tetrad/checkpoint.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A header that was accepted: no gap, no overlap, all bytes used; what we would write for it reads back the same.
void check_header(std::string_view text, std::uint64_t data_bytes) {
  namespace cp = tetrad::checkpoint;
  const tetrad::Result<cp::Header> header = cp::parse_header(text, data_bytes, "fuzz");
  if (!header) {
    require(!header.error().id.empty() && !header.error().what.empty());
    return;
  }
  std::uint64_t at = 0;
  for (const cp::HeaderTensor& tensor : header->tensors) {
    require(tensor.begin == at && tensor.end >= tensor.begin);
    at = tensor.end;
  }
  require(at == data_bytes);
  const std::string written = cp::header_bytes(*header);
  const tetrad::Result<cp::Header> again = cp::parse_header(std::string_view(written).substr(8), data_bytes, "fuzz");
  require(again.has_value() && again->tensors.size() == header->tensors.size() && again->metadata == header->metadata);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)tetrad::checkpoint::parse_json(bytes, "fuzz");
  if (size >= 8) check_header(bytes.substr(8), 0);

  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  require(fd >= 0);
  require(::write(fd, data, size) == static_cast<ssize_t>(size));
  {
    const tetrad::Result<tetrad::Checkpoint> opened = tetrad::Checkpoint::open("/proc/self/fd/" + std::to_string(fd));
    if (opened) {
      std::uint64_t sum = 0;
      for (const tetrad::StoredTensor& tensor : opened->tensors()) {
        for (std::uint64_t i = 0; i < tensor.bytes; ++i) sum += tensor.data[i];
        (void)tetrad::dense_matrix(tensor);
      }
      const auto layers = opened->nvfp4_layers();
      if (layers) {
        for (const tetrad::NvFp4Layer& layer : *layers) {
          for (std::int64_t i = 0; i < layer.weight.rows * layer.weight.k / tetrad::kBlock; ++i)
            sum += layer.weight.scales[i];
        }
      }
      require(sum < ~std::uint64_t{0});
      std::uint64_t length = 0;
      for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{data[i]} << (8 * i);
      check_header(bytes.substr(8, static_cast<std::size_t>(length)), size - 8 - length);
    }
  }
  ::close(fd);
  return 0;
}
