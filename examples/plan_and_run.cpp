// Quantises a matrix, plans on this CPU, runs the chosen kernel, judges the result.
#include <cmath>
#include <iostream>

#include "tetrad/judge.hpp"
#include "tetrad/kernels.hpp"
#include "tetrad/nvfp4.hpp"
#include "tetrad/plan.hpp"

int main() {
  using namespace tetrad;
  constexpr std::int64_t m = 4, n = 256, k = 512;
  std::vector<float> dense(n * k), x(m * k), y(m * n);
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));

  const ConstMatrix source{dense.data(), DType::f32, n, k, k};
  const float global = global_scale_for(absmax(source).value(), QuantMethod::four_over_six);
  std::vector<std::uint8_t> codes(n * k / 2), scales(n * k / kBlock);
  const Status quantized = quantize(source, global, QuantMethod::four_over_six, codes.data(), scales.data());
  QuantizedTensor w;
  w.rows = n, w.k = k, w.code_stride = k / 2, w.scale_stride = k / kBlock;
  w.codes = codes.data(), w.scales = scales.data(), w.global.value = global;

  const auto problem = parse_problem("m4 n256 k512 a=f32 acc=w4a16 out=f32");
  const auto plan = make_plan(problem.value(), host_device(), {}, kernel_candidates(), known_records(), {});
  const KernelDescriptor* kernel = find_kernel(plan.value().choices[0].kernel);
  const auto bound = kernel->bind({&w, 1});
  MatmulArgs args;
  args.x = {x.data(), DType::f32, m, k, k};
  args.y = {y.data(), DType::f32, m, n, n};
  const Status launched = bound.value()->launch(args);
  const Reference exact = exact_product({&w, 1}, args.x).value();
  const auto report = judge({y.data(), DType::f32, m, n, n}, exact, {.k = k});
  std::cout << kernel->candidate.name << ": " << report.text() << "\n";
  return quantized && launched && report.judgement == Judgement::pass ? 0 : 1;
}
