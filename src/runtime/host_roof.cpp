// Measures the limits of this CPU: read bandwidth by three kernels, fp32 and int8 multiply-add rates from registers.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "tetrad/host.hpp"
#include "tetrad/parallel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/host_roof.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tetrad::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each read kernel returns a sum that depends on every byte of [data, data + count), count a multiple of 4096.
std::uint64_t ReadStream(const std::uint64_t* data, std::size_t count) {
  const hn::CappedTag<std::uint64_t, 4> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d);
  auto b = a;
  auto c = a;
  auto e = a;
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, data + i));
    b = hn::Add(b, hn::LoadU(d, data + i + lanes));
    c = hn::Add(c, hn::LoadU(d, data + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, data + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// As ReadStream, with a software prefetch 2 KiB ahead.
std::uint64_t ReadPrefetch(const std::uint64_t* data, std::size_t count) {
  const hn::CappedTag<std::uint64_t, 4> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d);
  auto b = a;
  for (std::size_t i = 0; i < count; i += 8) {
    __builtin_prefetch(data + i + 256, 0, 0);
    for (std::size_t j = 0; j < 8; j += 2 * lanes) {
      a = hn::Add(a, hn::LoadU(d, data + i + j));
      if (j + lanes < 8) b = hn::Add(b, hn::LoadU(d, data + i + j + lanes));
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

// Four streams at once, as a product that takes four rows of weights.
std::uint64_t ReadFour(const std::uint64_t* data, std::size_t count) {
  const hn::CappedTag<std::uint64_t, 4> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t quarter = count / 4;
  auto a = hn::Zero(d);
  auto b = a;
  auto c = a;
  auto e = a;
  for (std::size_t i = 0; i < quarter; i += lanes) {
    a = hn::Add(a, hn::LoadU(d, data + i));
    b = hn::Add(b, hn::LoadU(d, data + quarter + i));
    c = hn::Add(c, hn::LoadU(d, data + 2 * quarter + i));
    e = hn::Add(e, hn::LoadU(d, data + 3 * quarter + i));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// 12 independent chains, `rounds` multiply-adds each; `flops` becomes their operations.
float FmaChains(std::int64_t rounds, double* flops) {
  const hn::CappedTag<float, 16> d;
  const auto factor = hn::Set(d, 0.999999F);
  const auto term = hn::Set(d, 1e-6F);
  // Distinct starts, lest a compiler merge the chains.
  auto a0 = hn::Set(d, 1.0F);
  auto a1 = hn::Set(d, 1.0625F);
  auto a2 = hn::Set(d, 1.125F);
  auto a3 = hn::Set(d, 1.1875F);
  auto a4 = hn::Set(d, 1.25F);
  auto a5 = hn::Set(d, 1.3125F);
  auto a6 = hn::Set(d, 1.375F);
  auto a7 = hn::Set(d, 1.4375F);
  auto a8 = hn::Set(d, 1.5F);
  auto a9 = hn::Set(d, 1.5625F);
  auto a10 = hn::Set(d, 1.625F);
  auto a11 = hn::Set(d, 1.6875F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term);
    a1 = hn::MulAdd(a1, factor, term);
    a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term);
    a4 = hn::MulAdd(a4, factor, term);
    a5 = hn::MulAdd(a5, factor, term);
    a6 = hn::MulAdd(a6, factor, term);
    a7 = hn::MulAdd(a7, factor, term);
    a8 = hn::MulAdd(a8, factor, term);
    a9 = hn::MulAdd(a9, factor, term);
    a10 = hn::MulAdd(a10, factor, term);
    a11 = hn::MulAdd(a11, factor, term);
  }
  *flops = 2.0 * 12.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
  const auto s = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s, hn::Add(hn::Add(a8, a9), hn::Add(a10, a11)))));
}

// One int8 multiply-add instruction on registers. Its result is its next operand, so that nothing can be hoisted.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
using Int8 = __m512i;
const char* Int8Name() { return "vpdpbusd"; }
HWY_INLINE Int8 Int8Set(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
HWY_INLINE Int8 Int8Dot(Int8 a, Int8 b) { return _mm512_dpbusd_epi32(a, a, b); }
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
using Int8 = __m512i;
const char* Int8Name() { return "maddubs"; }
HWY_INLINE Int8 Int8Set(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
HWY_INLINE Int8 Int8Dot(Int8 a, Int8 b) { return _mm512_maddubs_epi16(a, b); }
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
using Int8 = __m256i;
const char* Int8Name() { return "maddubs"; }
HWY_INLINE Int8 Int8Set(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
HWY_INLINE Int8 Int8Dot(Int8 a, Int8 b) { return _mm256_maddubs_epi16(a, b); }
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
using Int8 = __m128i;
const char* Int8Name() { return "maddubs"; }
HWY_INLINE Int8 Int8Set(int v) { return _mm_set1_epi8(static_cast<char>(v)); }
HWY_INLINE Int8 Int8Dot(Int8 a, Int8 b) { return _mm_maddubs_epi16(a, b); }
#else
using Int8 __attribute__((vector_size(16))) = std::uint8_t;
const char* Int8Name() { return "byte multiply-add"; }
HWY_INLINE Int8 Int8Set(int v) { return Int8{} + static_cast<std::uint8_t>(v); }
HWY_INLINE Int8 Int8Dot(Int8 a, Int8 b) { return a * b + b; }
#endif

// 12 independent chains, `rounds` instructions each; `operations` becomes their multiply-adds times two.
std::uint64_t Int8Chains(std::int64_t rounds, double* operations) {
  const Int8 factor = Int8Set(3);
  Int8 a0 = Int8Set(1);
  Int8 a1 = Int8Set(2);
  Int8 a2 = Int8Set(3);
  Int8 a3 = Int8Set(4);
  Int8 a4 = Int8Set(5);
  Int8 a5 = Int8Set(6);
  Int8 a6 = Int8Set(7);
  Int8 a7 = Int8Set(8);
  Int8 a8 = Int8Set(9);
  Int8 a9 = Int8Set(10);
  Int8 a10 = Int8Set(11);
  Int8 a11 = Int8Set(12);
  for (std::int64_t i = 0; i < rounds; ++i) {
    a0 = Int8Dot(a0, factor);
    a1 = Int8Dot(a1, factor);
    a2 = Int8Dot(a2, factor);
    a3 = Int8Dot(a3, factor);
    a4 = Int8Dot(a4, factor);
    a5 = Int8Dot(a5, factor);
    a6 = Int8Dot(a6, factor);
    a7 = Int8Dot(a7, factor);
    a8 = Int8Dot(a8, factor);
    a9 = Int8Dot(a9, factor);
    a10 = Int8Dot(a10, factor);
    a11 = Int8Dot(a11, factor);
  }
  *operations = 2.0 * 12.0 * static_cast<double>(rounds) * static_cast<double>(sizeof(Int8));
  const Int8 all[12] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11};
  std::array<std::uint64_t, sizeof(all) / (sizeof(std::uint64_t))> words{};
  std::memcpy(words.data(), all, sizeof(all));
  std::uint64_t mixed = 0;
  for (const std::uint64_t word : words) mixed ^= word * 0x9E3779B97F4A7C15U;
  return mixed;
}

const char* Isa() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tetrad::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tetrad {

HWY_EXPORT(ReadStream);
HWY_EXPORT(ReadPrefetch);
HWY_EXPORT(ReadFour);
HWY_EXPORT(FmaChains);
HWY_EXPORT(Int8Chains);
HWY_EXPORT(Int8Name);
HWY_EXPORT(Isa);

namespace {

// Eight times the 32 MiB of a large last-level cache slice.
constexpr std::size_t kBufferBytes = std::size_t{256} << 20;
constexpr std::int64_t kRounds = 1'000'000;
constexpr int kRepeats = 7;

using ReadKernel = std::uint64_t (*)(const std::uint64_t*, std::size_t);

template <class Body>
double best_seconds(int threads, const Body& body) {
  double best = 1e30;
  for (int r = 0; r < kRepeats; ++r) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads, 1, threads, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t part = begin; part < end; ++part) body(part);
    });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

}  // namespace

HostRoof measure_host(int threads) {
  HostRoof roof;
  roof.threads = threads > 0 ? threads : hardware_threads();
  roof.isa = HWY_DYNAMIC_DISPATCH(Isa)();
  for (char& c : roof.isa) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);

  constexpr std::size_t kPiece = 4096;
  const std::size_t part =
      kBufferBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(roof.threads) / kPiece * kPiece;
  std::vector<std::uint64_t> buffer(part * static_cast<std::size_t>(roof.threads), 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(roof.threads));
  struct Named {
    const char* name;
    ReadKernel kernel;
  };
  const std::array<Named, 3> kernels = {
      Named{"stream", [](const std::uint64_t* d, std::size_t n) { return HWY_DYNAMIC_DISPATCH(ReadStream)(d, n); }},
      Named{"prefetch", [](const std::uint64_t* d, std::size_t n) { return HWY_DYNAMIC_DISPATCH(ReadPrefetch)(d, n); }},
      Named{"four streams",
            [](const std::uint64_t* d, std::size_t n) { return HWY_DYNAMIC_DISPATCH(ReadFour)(d, n); }}};
  for (const Named& read : kernels) {
    const double seconds = best_seconds(roof.threads, [&](std::int64_t p) {
      sums[static_cast<std::size_t>(p)] += read.kernel(buffer.data() + static_cast<std::size_t>(p) * part, part);
    });
    const double rate = static_cast<double>(buffer.size() * sizeof(std::uint64_t)) / seconds;
    if (rate > roof.read_bytes_per_s) {
      roof.read_bytes_per_s = rate;
      roof.read_kernel = read.name;
    }
  }
  // Every word was 1, so each pass adds `part`: a read that was optimised away would show as no bandwidth at all.
  for (const std::uint64_t sum : sums)
    if (sum != part * kernels.size() * kRepeats) roof.read_bytes_per_s = 0.0;

  std::vector<double> flops(static_cast<std::size_t>(roof.threads));
  std::vector<float> results(static_cast<std::size_t>(roof.threads));
  const double seconds = best_seconds(roof.threads, [&](std::int64_t p) {
    const auto at = static_cast<std::size_t>(p);
    results[at] = HWY_DYNAMIC_DISPATCH(FmaChains)(kRounds, &flops[at]);
  });
  for (std::size_t p = 0; p < flops.size(); ++p)
    if (results[p] > 0.0F) roof.fma_flops_per_s += flops[p] / seconds;

  roof.int8_kernel = HWY_DYNAMIC_DISPATCH(Int8Name)();
  std::vector<double> operations(static_cast<std::size_t>(roof.threads));
  std::vector<std::uint64_t> mixed(static_cast<std::size_t>(roof.threads));
  const double int8_seconds = best_seconds(roof.threads, [&](std::int64_t p) {
    const auto at = static_cast<std::size_t>(p);
    mixed[at] = HWY_DYNAMIC_DISPATCH(Int8Chains)(kRounds, &operations[at]);
  });
  // Every thread computes the same; a rate of work that was not done would be none.
  for (std::size_t p = 0; p < operations.size(); ++p)
    if (mixed[p] == mixed.front()) roof.int8_ops_per_s += operations[p] / int8_seconds;
  return roof;
}

DeviceProfile host_device(const HostRoof& roof) {
  DeviceProfile device = host_device();
  const auto fact = [&](double value, const std::string& how) {
    Fact<double> result;
    if (value > 0.0) result.value = value;
    result.origin = Origin::measured;
    result.certainty = Certainty::measured_here;
    result.source = how + ", " + std::to_string(roof.threads) + " threads, " + roof.isa + ", " + today();
    return result;
  };
  device.bandwidth_read = fact(roof.read_bytes_per_s, "measured: read kernel '" + roof.read_kernel + "'");
  device.peak_fp32 = fact(roof.fma_flops_per_s, "measured: multiply-add from registers");
  device.peak_int8 =
      fact(roof.int8_ops_per_s, "measured: int8 multiply-add by " + roof.int8_kernel + " from registers");
  return device;
}

}  // namespace tetrad
#endif
