// Fat binaries (internal): the containers that nvcc and fatbinary write into host objects and .fatbin files. NVIDIA
// documents no format; docs/binary.md says what this one was read off.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "binary/window.hpp"
#include "tetrad/binary.hpp"
#include "tetrad/target.hpp"

namespace tetrad::binary {

inline constexpr std::string_view kFatbinMagic{"\x50\xed\x55\xba", 4};
// Larger images are refused: what is in memory at once stays bounded.
inline constexpr std::uint64_t kMaxStored = 256ULL << 20;
inline constexpr std::uint64_t kMaxUnpacked = 512ULL << 20;

// One image as it lies in its container.
struct FatbinEntry {
  std::uint16_t kind = 0;      // 1 PTX, 2 cubin, 8 LTO-IR
  std::uint64_t offset = 0;    // of the entry's header, in the file
  std::uint64_t stored = 0;    // bytes of the payload, padding included
  std::uint64_t packed = 0;    // bytes of the packed stream; 0 where nothing is packed
  std::uint64_t unpacked = 0;  // bytes when unpacked; 0 where nothing is packed
  ImagePacking packing = ImagePacking::none;
  std::optional<Target> target;  // by the entry's number and flags
  std::string source;            // name of the source file, where the entry has one
};

// True where `bytes` begin like a container.
bool looks_like_fatbin(Bytes bytes);

// Reads the container at the window's position and leaves the window behind it. `visit` gets each entry with its
// payload, valid during the call. A container that breaks off or lies is an error after the entries before it were
// visited; the window then stands where the damage is. Errors (input): TE0806 ends early, TE0807 sizes that contradict
// each other, TE0808 an image too large; and those of the reader.
Status read_fatbin(Window& window, std::string_view where,
                   const std::function<void(const FatbinEntry&, Bytes payload)>& visit);

// The image itself. Errors (input): TE0808 too large, TE0809 damaged or of another size than said.
struct Unpacked {
  std::unique_ptr<std::byte[]> owned;
  Bytes bytes;  // of `owned`, or of the payload where nothing is packed
};
Result<Unpacked> unpack(const FatbinEntry& entry, Bytes payload, std::string_view where);

}  // namespace tetrad::binary
