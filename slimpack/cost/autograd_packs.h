// Autograd packs: facts about a plan's MicroPacks that both times and memory of layers under
// autograd follow from. Only the room cost includes this.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/regroup.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// By sequence, where its slices with a prefix begin in the packs; ascending, each once.
using Begins = std::vector<std::vector<Tokens>>;

inline void add_begins(Begins& begins, const std::vector<MicroPack>& packs) {
  for (const MicroPack& pack : packs)
    for (const Slice& slice : pack.slices) {
      if (slice.begin == Tokens(0)) continue;
      if (begins.size() <= slice.sequence.index()) begins.resize(slice.sequence.index() + 1);
      begins[slice.sequence.index()].push_back(slice.begin);
    }
  for (std::vector<Tokens>& of : begins) {
    std::sort(of.begin(), of.end());
    of.erase(std::unique(of.begin(), of.end()), of.end());
  }
}

/// The packs that have a pair: their graphs are kept from F to B on stages that keep graphs.
struct PairedPacks {
  std::vector<bool> forward, backward;

  explicit PairedPacks(const PackPlan& packs) : forward(packs.forward.size()) {
    for (const std::optional<PackId>& pair : forward_pairs(packs)) {
      backward.push_back(pair.has_value());
      if (pair) forward[pair->index()] = true;
    }
  }
  [[nodiscard]] const std::vector<bool>& of(Pass pass) const {
    return pass == Pass::kForward ? forward : backward;
  }
};

/// Bytes of a gradient's sum for each byte of what it is the gradient of.
inline double sums_scale(const Costs& cost) {
  return static_cast<double>(accumulator_bytes(cost.dtype)) /
         static_cast<double>(element_bytes(cost.dtype));
}

/// Bytes of a token's hidden state.
inline double input_bytes(const Costs& cost) {
  return static_cast<double>(cost.shape.hidden_size() * element_bytes(cost.dtype));
}

}  // namespace slimpack
