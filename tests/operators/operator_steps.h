// Steps whose actions are counted: what each asks of libtorch and of its device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "tests/operators/operator_counts.h"
#include "tests/packflow/support/pretended_device.h"

namespace slimpack {

/// A model whose operators are counted: how many they are does not depend on its sizes.
[[nodiscard]] Decoder small_model(bool qk_norm = false);

/// A step whose actions are counted.
struct OperatorCase {
  at::Device device;
  Decoder shape = small_model();
  /// Whole documents of each MicroPack, or the two slices of a document; no multiples of the ranks'
  /// stripes.
  std::vector<Tokens> lengths{Tokens(48), Tokens(48)};
  bool sliced = false;  ///< documents in two slices; else each MicroPack has whole ones
  std::int64_t documents = 1;
  Recompute recompute = Recompute::kElementwise;
  std::int32_t tensor = 1;
  std::int32_t stages = 1;
  bool processes = false;  ///< whether ranks exchange messages as processes do; else threads
};

/// The requests of a rank so far.
struct Moment {
  OperatorCounts operators;
  testing::ThreadCalls calls;
};

/// The requests of each rank before each of its actions.
using Moments = std::map<std::int32_t, std::vector<Moment>>;

/// Runs a step of the model with `layers` layers and a MicroPack a pass for each of `c.lengths`.
[[nodiscard]] Moments count_step(const OperatorCase& c, std::int64_t layers);

/// Operators and calls of the rank's action `index`.
[[nodiscard]] Moment cost_of(const Moments& moments, std::int32_t rank, std::size_t index);

}  // namespace slimpack
