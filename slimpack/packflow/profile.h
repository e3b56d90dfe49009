// Profile: measures this machine with the runtime's own code and fits the cost model to it.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct ProfileOptions {
  ModelShape shape;
  Dtype dtype = Dtype::kFp32;
  Tokens context{4096};    ///< longest sequence to measure
  std::int32_t ranks = 1;  ///< threads that measure at once: ranks of one machine slow each other
  bool pin_threads = false;
  ClockKind clock = ClockKind::kWall;  ///< virtual: processor time, whoever else is running
  /// Wall time to aim at. Points that would take more than a fifth of it are left out.
  Nanos budget = from_seconds(6);
};

/// Runs one decoder layer, embedding, head and optimizer over a grid of tokens and prefixes,
/// forward, backward and what backward can put off, and fits their coefficients.
[[nodiscard]] CostModel profile_costs(const ProfileOptions& options);

/// Times of one layer on one whole sequence, split into attention and everything else.
struct PassRatio {
  Tokens tokens;
  Nanos attention_forward, attention_backward;
  Nanos linear_forward, linear_backward;
};

/// At powers of four from 256 to the context: how backward compares with forward.
[[nodiscard]] std::vector<PassRatio> measure_pass_ratios(const ProfileOptions& options);

}  // namespace slimpack
