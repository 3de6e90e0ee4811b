// gpu_bench OUT.json: times of the GPU rows beside a read kernel over the same bytes and cuBLASLt's BF16 product, in
// one run. Graph replay of launches that rotate over weights of at least 4x the L2; medians of 11 replays; launch gaps
// count.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tetrad/gpu.hpp"
#include "tetrad/nvfp4.hpp"
#include "weight/mma16.hpp"

namespace {

using namespace tetrad;

void need(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  std::exit(1);
}
void need(cudaError_t status, const char* what) { need(status == cudaSuccess, what); }

__device__ std::uint32_t mix(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return x ^ x >> 16;
}

// Random codes; scale bytes 0x20 to 0x4F (2^-3 to 30) in their places.
__global__ void fill_weights(std::uint8_t* to, std::int64_t bytes, std::int64_t tile_bytes, std::int64_t code_bytes,
                             std::uint32_t seed) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < bytes; i += gridDim.x * 256LL) {
    const std::uint32_t r = mix(static_cast<std::uint32_t>(i) + seed);
    to[i] = static_cast<std::uint8_t>(i % tile_bytes < code_bytes ? r : 0x20 + r % 0x30);
  }
}

__global__ void fill_normal(__nv_bfloat16* to, std::int64_t count, std::uint32_t seed) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    const float u = (mix(static_cast<std::uint32_t>(2 * i) + seed) + 1.0F) * 0x1p-32F;
    const float v = mix(static_cast<std::uint32_t>(2 * i + 1) + seed) * 0x1p-32F;
    to[i] = __float2bfloat16_rn(sqrtf(-2.0F * logf(u)) * cospif(2.0F * v));
  }
}

__global__ void __launch_bounds__(512) read_all(const uint4* from, std::int64_t count, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  const std::int64_t stride = gridDim.x * 512LL;
  std::int64_t i = blockIdx.x * 512LL + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                   : "l"(from + i + j * stride));
#pragma unroll
    for (int j = 0; j < 4; ++j) sum = make_uint4(sum.x ^ v[j].x, sum.y ^ v[j].y, sum.z ^ v[j].z, sum.w ^ v[j].w);
  }
  for (; i < count; i += stride) {
    const uint4 v = from[i];
    sum = make_uint4(sum.x ^ v.x, sum.y ^ v.y, sum.z ^ v.z, sum.w ^ v.w);
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678U) *sink = sum;
}

// Row `row` by token, in double, from the layout's formula: a block per row.
__global__ void exact_rows(const std::uint8_t* packed, std::int64_t k, const __nv_bfloat16* x, int m, double alpha,
                           const int* rows, double* y) {
  constexpr float kCode[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  __shared__ double part[256];
  const int row = rows[blockIdx.x];
  for (int token = 0; token < m; ++token) {
    double sum = 0.0;
    for (std::int64_t c = threadIdx.x; c < k; c += 256) {
      const weight::Mma16Code at = weight::mma16_code(row, c, k);
      const int code = packed[at.byte] >> at.shift & 15;
      const int s = packed[weight::mma16_scale(row, c / 16, k)];
      const double scale = s < 8 ? s * 0x1p-9 : ldexp(8.0 + (s & 7), (s >> 3) - 10);
      sum += (code & 8 ? -1.0 : 1.0) * static_cast<double>(kCode[code & 7]) * scale *
             static_cast<double>(__bfloat162float(x[token * k + c]));
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      double total = 0.0;
      for (int i = 0; i < 256; ++i) total += part[i];
      y[blockIdx.x * m + token] = total * alpha;
    }
    __syncthreads();
  }
}

struct Time {
  double median = 0.0;
  double least = 0.0;
  double most = 0.0;
};

// Microseconds per launch of `launches` launches captured into a graph; `before` runs before each replay, untimed.
Time time_graph(
    int launches, const std::function<void(int, cudaStream_t)>& launch, const std::function<void()>& before = [] {}) {
  cudaStream_t stream = nullptr;
  need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  need(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; ++i) launch(i, stream);
  need(cudaStreamEndCapture(stream, &graph), "capture");
  need(cudaGraphInstantiate(&exec, graph, 0), "graph");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  need(cudaEventCreate(&begin), "event");
  need(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = 0; i < 14; ++i) {
    before();
    need(cudaDeviceSynchronize(), "before a replay");
    need(cudaEventRecord(begin, stream), "event");
    need(cudaGraphLaunch(exec, stream), "replay");
    need(cudaEventRecord(end, stream), "event");
    need(cudaEventSynchronize(end), "replay");
    float ms = 0.0F;
    need(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 3) times.push_back(1e3 * ms / launches);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return {times[times.size() / 2], times.front(), times.back()};
}

// cuBLASLt, looked for at run time.
class Blas {
 public:
  Blas() {
    void* library = dlopen("libcublasLt.so.13", RTLD_NOW);
    if (library == nullptr) return;
    const auto load = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      return function != nullptr;
    };
    found_ = load(create_, "cublasLtCreate") && load(desc_, "cublasLtMatmulDescCreate") &&
             load(set_, "cublasLtMatmulDescSetAttribute") && load(layout_, "cublasLtMatrixLayoutCreate") &&
             load(preference_, "cublasLtMatmulPreferenceCreate") &&
             load(prefer_, "cublasLtMatmulPreferenceSetAttribute") &&
             load(heuristic_, "cublasLtMatmulAlgoGetHeuristic") && load(matmul_, "cublasLtMatmul");
    if (found_) need(create_(&handle_) == CUBLAS_STATUS_SUCCESS, "cublasLtCreate");
    if (found_) need(cudaMalloc(&workspace_, kWorkspace), "workspace");
  }
  bool found() const { return found_; }

  // Fastest of the heuristic's algorithms; y[m,n] = x[m,k] w[n,k]^T.
  Time best(int m, int n, int k, const std::vector<__nv_bfloat16*>& w, const __nv_bfloat16* x, __nv_bfloat16* y,
            int launches) {
    cublasLtMatmulDesc_t desc = nullptr;
    need(desc_(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS, "desc");
    const cublasOperation_t transpose = CUBLAS_OP_T;
    set_(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose));
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t d = nullptr;
    layout_(&a, CUDA_R_16BF, k, n, k);
    layout_(&b, CUDA_R_16BF, k, m, k);
    layout_(&d, CUDA_R_16BF, n, m, n);
    cublasLtMatmulPreference_t preference = nullptr;
    preference_(&preference);
    const std::size_t bytes = kWorkspace;
    prefer_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
    cublasLtMatmulHeuristicResult_t results[16];
    int count = 0;
    heuristic_(handle_, desc, a, b, d, d, preference, 16, results, &count);
    algorithms = count;
    const float one = 1.0F;
    const float zero = 0.0F;
    Time least;
    for (int i = 0; i < count; ++i) {
      const Time t = time_graph(launches, [&](int j, cudaStream_t stream) {
        matmul_(handle_, desc, &one, w[static_cast<std::size_t>(j) % w.size()], a, x, b, &zero, y, d, y, d,
                &results[i].algo, workspace_, kWorkspace, stream);
      });
      if (least.median == 0.0 || t.median < least.median) least = t;
    }
    return least;
  }
  int algorithms = 0;

 private:
  static constexpr std::size_t kWorkspace = 64 << 20;
  bool found_ = false;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  decltype(&cublasLtCreate) create_ = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_ = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_ = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_ = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_ = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) prefer_ = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_ = nullptr;
  decltype(&cublasLtMatmul) matmul_ = nullptr;
};

gpu::Memory memory(std::size_t bytes) {
  Result<gpu::Memory> result = gpu::allocate(bytes);
  need(result.has_value(), "allocating");
  return *result;
}

std::string json(const Time& t) {
  char text[128];
  std::snprintf(text, sizeof(text), "{\"median_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f}", t.median, t.least,
                t.most);
  return text;
}

// Relative L2 error over 256 rows against the double sums; 1e9 where an element is missing.
double error_of(const gpu::Weight& weight, const __nv_bfloat16* x, const __nv_bfloat16* y, int m) {
  std::vector<int> rows;
  for (int i = 0; i < 256; ++i)
    rows.push_back(i < 64 ? i : static_cast<int>(i >= 192 ? weight.rows - 1 - (i - 192) : weight.rows / 2 + i));
  for (int& row : rows) row = static_cast<int>(std::min<std::int64_t>(row, weight.rows - 1));
  gpu::Memory device_rows = memory(rows.size() * sizeof(int));
  gpu::Memory exact = memory(rows.size() * static_cast<std::size_t>(m) * sizeof(double));
  need(cudaMemcpy(device_rows.data.get(), rows.data(), device_rows.bytes, cudaMemcpyHostToDevice), "copy");
  exact_rows<<<256, 256>>>(weight.data.data.get(), weight.k, x, m, weight.global.decode(),
                           reinterpret_cast<int*>(device_rows.data.get()), reinterpret_cast<double*>(exact.data.get()));
  std::vector<double> want(rows.size() * static_cast<std::size_t>(m));
  std::vector<__nv_bfloat16> have(static_cast<std::size_t>(m * weight.rows));
  need(cudaMemcpy(want.data(), exact.data.get(), exact.bytes, cudaMemcpyDeviceToHost), "copy");
  need(cudaMemcpy(have.data(), y, have.size() * 2, cudaMemcpyDeviceToHost), "copy");
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int t = 0; t < m; ++t) {
      const double w = want[i * static_cast<std::size_t>(m) + static_cast<std::size_t>(t)];
      const double h = __bfloat162float(have[static_cast<std::size_t>(t * weight.rows + rows[i])]);
      error += (h - w) * (h - w);
      norm += w * w;
    }
  return std::isfinite(error) ? std::sqrt(error / norm) : 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gpu_bench OUT.json\n");
    return 2;
  }
  const Result<gpu::DeviceInfo> device = gpu::current_device();
  need(device.has_value(), "no GPU");
  std::FILE* out = std::fopen(argv[1], "w");
  need(out != nullptr, argv[1]);
  std::fprintf(out,
               "{\"schema\": \"tetrad.gpu_bench/1.0\", \"device\": \"%s\", \"sms\": %d, \"driver\": %d, "
               "\"runtime\": %d, \"rows\": [",
               device->name.c_str(), device->sms, device->driver, device->runtime);
  const char* separator = "";
  Blas blas;
  const struct {
    int n;
    int k;
  } shapes[] = {{34816, 5120}, {5120, 17408}, {8192, 8192}, {4096, 4096}};
  const char* kRow = "sm80_w4a16_gemv";
  gpu::Memory sink = memory(256);
  for (const auto& [n, k] : shapes) {
    const auto bytes = static_cast<std::size_t>(weight::mma16_bytes(n, k));
    const int sets =
        std::max(3, static_cast<int>((4 * static_cast<std::size_t>(device->l2_bytes) + bytes - 1) / bytes));
    const int launches = std::max(24, sets);
    std::vector<gpu::Weight> weights;
    std::vector<std::unique_ptr<gpu::Kernel>> kernels;
    for (int i = 0; i < sets; ++i) {
      gpu::Weight w{"mma16/1", n, k, {0.01F, GlobalScale::Kind::multiplier}, memory(bytes), {}};
      const std::int64_t tile = weight::mma16_tile_bytes(k);
      fill_weights<<<1024, 256>>>(w.data.data.get(), static_cast<std::int64_t>(bytes), tile,
                                  weight::mma16_groups(k) * weight::kMma16CodeBytes, 77U * static_cast<unsigned>(i));
      weights.push_back(w);
      auto kernel = gpu::bind(kRow, weights.back());
      need(kernel.has_value(), "bind");
      kernels.push_back(std::move(*kernel));
    }
    Time read;
    for (const int per_sm : {1, 2, 3, 4}) {
      const Time t = time_graph(launches, [&](int i, cudaStream_t stream) {
        read_all<<<device->sms * per_sm, 512, 0, stream>>>(
            reinterpret_cast<const uint4*>(weights[static_cast<std::size_t>(i % sets)].data.data.get()),
            static_cast<std::int64_t>(bytes / 16), reinterpret_cast<uint4*>(sink.data.get()));
      });
      if (read.median == 0.0 || t.median < read.median) read = t;
    }
    std::fprintf(out, "%s\n{\"n\": %d, \"k\": %d, \"kernel\": \"read\", \"bytes\": %zu, \"time\": %s}", separator, n, k,
                 bytes, json(read).c_str());
    separator = ",";
    std::printf("%dx%d read %.1f MB: %.2f us, %.2f TB/s\n", n, k, bytes * 1e-6, read.median,
                bytes * 1e-6 / read.median);
    gpu::Memory x = memory(static_cast<std::size_t>(16 * k * 2));
    gpu::Memory y = memory(static_cast<std::size_t>(16 * n * 2));
    auto* xs = reinterpret_cast<__nv_bfloat16*>(x.data.get());
    auto* ys = reinterpret_cast<__nv_bfloat16*>(y.data.get());
    fill_normal<<<256, 256>>>(xs, 16LL * k, 5);
    const std::size_t wide_bytes = static_cast<std::size_t>(n) * static_cast<std::size_t>(k) * 2;
    std::vector<gpu::Memory> wide;
    std::vector<__nv_bfloat16*> wides;
    if (blas.found())
      for (std::size_t total = 0; total < 4 * static_cast<std::size_t>(device->l2_bytes) || wide.size() < 2;
           total += wide_bytes) {
        wide.push_back(memory(wide_bytes));
        wides.push_back(reinterpret_cast<__nv_bfloat16*>(wide.back().data.get()));
        fill_normal<<<1024, 256>>>(wides.back(), static_cast<std::int64_t>(wide_bytes / 2), 9);
      }
    for (const int m : {1, 2, 3, 4, 6, 8, 12, 16}) {
      gpu::Memory workspace = memory(std::max<std::size_t>(16, kernels[0]->workspace_bytes(m)));
      gpu::Args args;
      args.x = {xs, DType::bf16, m, k, k};
      args.y = {ys, DType::bf16, m, n, n};
      args.workspace = workspace.data.get();
      args.workspace_bytes = workspace.bytes;
      need(cudaMemset(ys, 0xFF, static_cast<std::size_t>(m * n * 2)), "poison");
      need(cudaMemset(workspace.data.get(), 0xFF, workspace.bytes), "poison");
      need(kernels[0]->launch(args).has_value(), "launch");
      need(cudaDeviceSynchronize(), kRow);
      const double error = error_of(weights[0], xs, ys, m);
      const Time t = time_graph(
          launches,
          [&](int i, cudaStream_t stream) {
            gpu::Args one = args;
            one.stream = stream;
            need(kernels[static_cast<std::size_t>(i % sets)]->launch(one).has_value(), "launch");
          },
          [&] { need(cudaMemset(workspace.data.get(), 0xFF, workspace.bytes), "poison"); });
      const Time base = blas.found() ? blas.best(m, n, k, wides, xs, ys, 12) : Time{};
      std::fprintf(out,
                   ",\n{\"n\": %d, \"k\": %d, \"m\": %d, \"kernel\": \"%s\", \"time\": %s, \"relative_l2\": %.3e, "
                   "\"workspace_bytes\": %zu, \"cublaslt_bf16\": %s, \"cublaslt_algorithms\": %d}",
                   n, k, m, kRow, json(t).c_str(), error, kernels[0]->workspace_bytes(m), json(base).c_str(),
                   blas.algorithms);
      std::printf("%dx%d m %2d: %7.2f us (%.2f-%.2f), read/ours %.2f, cuBLASLt %.2f us, ratio %.2f, error %.1e\n", n, k,
                  m, t.median, t.least, t.most, read.median / t.median, base.median, base.median / t.median, error);
      std::fflush(stdout);
    }
  }
  std::fprintf(out, "\n]}\n");
  std::fclose(out);
  return 0;
}
