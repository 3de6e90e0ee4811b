#include "nvfp4_linear.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure.hpp"
#include "tetrad/host.hpp"
#include "tetrad/plan.hpp"

namespace tetrad::embed {
namespace {

// The built row that multiplies 4-bit activations.
std::string w4a4_row() {
  for (const Candidate& candidate : kernel_candidates()) {
    if (candidate.built && candidate.acc == Acc::w4a4 && candidate.target.kind == Target::Kind::host)
      return candidate.name;
  }
  return "";
}

}  // namespace

Result<Nvfp4Linear> Nvfp4Linear::open(const Checkpoint& checkpoint, const std::vector<Bert::Layer>& layers,
                                      std::int64_t rows, int threads) {
  const Result<std::vector<NvFp4Layer>> quantised = checkpoint.nvfp4_layers();
  if (!quantised) return quantised.error();
  Result<std::map<std::string, std::vector<float>, std::less<>>> biases = read_biases(checkpoint, layers);
  if (!biases) return biases.error();
  const DeviceProfile host = host_device(measure_host(threads));
  Nvfp4Linear result;
  result.threads_ = threads;
  for (const Bert::Layer& wanted : layers) {
    const auto found = std::find_if(quantised->begin(), quantised->end(),
                                    [&](const NvFp4Layer& layer) { return layer.name == wanted.name; });
    if (found == quantised->end() || found->weight.rows != wanted.out || found->weight.k != wanted.in) {
      return Error{
          ErrorKind::input,
          "TE0657",
          "a linear layer of the model is not NVFP4 or has another shape",
          fmt::format("{}: {}", checkpoint.path(), wanted.name),
          fmt::format("[{}, {}]", wanted.out, wanted.in),
          found == quantised->end() ? "no such layer" : fmt::format("[{}, {}]", found->weight.rows, found->weight.k),
          {},
          fmt::format("tetrad inspect {}", checkpoint.path())};
    }
    result.scheme_ = found->scheme;
    ProblemSet set;
    set.base.m = rows;
    set.base.n = wanted.out;
    set.base.k = wanted.in;
    set.base.a = DType::f32;
    set.base.out = DType::f32;
    set.base.bias = true;
    set.base.acc = found->scheme == Scheme::w4a4 ? Acc::w4a4 : Acc::w4a16;
    set.m = {rows};
    const std::string force = found->scheme == Scheme::w4a4 ? w4a4_row() : "";
    const Result<Plan> plan = measure::plan_here(set, host, force, found->weight.input_global.has_value());
    if (!plan) return plan.error();
    Layer layer;
    layer.weight = found->weight;
    layer.bias = std::move((*biases)[wanted.name]);
    layer.kernel = find_kernel(plan->choices.front().kernel);
    Result<std::unique_ptr<BoundKernel>> bound = layer.kernel->bind({&layer.weight, 1});
    if (!bound) return bound.error();
    layer.bound = std::move(*bound);
    layer.record = {wanted.name, wanted.out, wanted.in, layer.kernel->candidate.name, 0.0, {}, 0.0};
    result.index_.emplace(wanted.name, result.layers_.size());
    result.layers_.push_back(std::move(layer));
  }
  return result;
}

Status Nvfp4Linear::apply(std::string_view name, std::int64_t rows, std::span<const float> x, std::span<float> y) {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    return Error{
        ErrorKind::internal, "TE0654", "the forward pass names an unknown layer", std::string(name), "", "", {}, ""};
  }
  Layer& layer = layers_[found->second];
  measure::Operands operands;
  operands.weights = {layer.weight};
  operands.x = {x.data(), DType::f32, rows, layer.weight.k, layer.weight.k};
  operands.bias = layer.bias.data();
  const Matrix result{y.data(), DType::f32, rows, layer.weight.rows, layer.weight.rows};
  const auto begin = std::chrono::steady_clock::now();
  if (Status done = layer.bound->launch(operands.args(result, threads_)); !done) return done;
  layer.record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (original_ == nullptr) return ok();
  const ConstMatrix view{y.data(), DType::f32, rows, layer.weight.rows, layer.weight.rows};
  const Result<measure::Checked> checked = measure::check(layer.kernel->candidate, operands, view, threads_);
  if (!checked) return checked.error();
  layer.record.report = checked->report;
  std::vector<float> exact(y.size());
  if (Status done = original_->apply(name, rows, x, exact); !done) return done;
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error += (double{y[i]} - exact[i]) * (double{y[i]} - exact[i]);
    norm += double{exact[i]} * exact[i];
  }
  layer.record.relative_to_original = norm == 0.0 ? 0.0 : std::sqrt(error / norm);
  return ok();
}

std::vector<LayerRecord> Nvfp4Linear::records() const {
  std::vector<LayerRecord> result;
  for (const Layer& layer : layers_) result.push_back(layer.record);
  return result;
}

}  // namespace tetrad::embed
