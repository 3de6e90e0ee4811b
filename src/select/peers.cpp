#include <string>
#include <utility>

#include "tetrad/fit.hpp"

namespace tetrad {
namespace {

// The published times are of the product alone: activations quantised before are read as they are, one launch. Rows pad
// to the 16 of the matrix instruction; the tiles that the peers chose per m were not published.
Candidate peer(std::string name, Target target, Acc acc, Unit unit, double weight_bytes, double activation_bytes) {
  Candidate c;
  c.name = std::move(name);
  c.target = target;
  c.acc = acc;
  c.unit = unit;
  c.a_types = {DType::bf16};
  c.out_types = {DType::bf16};
  c.tile.m = 16;
  c.weight_bytes_per_element = weight_bytes;
  c.a_bytes_per_element = activation_bytes;
  c.accuracy = acc == Acc::w4a16 ? Accuracy::fp32_sum : Accuracy::rounded;
  return c;
}

}  // namespace

std::span<const Candidate> peer_candidates() {
  using Kind = Target::Kind;
  static const std::vector<Candidate> peers{
      peer("peer:w4a4", {Kind::family, {12, 0}}, Acc::w4a4, Unit::nvfp4, 0.5625, 0.5625),
      peer("peer:w4a16-cutedsl", {Kind::family, {12, 0}}, Acc::w4a16, Unit::bf16, 0.5625, 2.0),
      peer("peer:marlin", {Kind::ptx, {8, 0}}, Acc::w4a16, Unit::bf16, 0.5625, 2.0),
      peer("peer:humming", {Kind::arch, {9, 0}}, Acc::w4a16, Unit::bf16, 0.5625, 2.0),
      peer("peer:fp8", {Kind::ptx, {8, 9}}, Acc::w4a8, Unit::fp8, 1.0, 1.0),
      peer("peer:bf16", {Kind::ptx, {8, 0}}, Acc::w4a16, Unit::bf16, 2.0, 2.0),
  };
  return peers;
}

}  // namespace tetrad
