// AdamW (Loshchilov, Hutter 2019) with warm-up, cosine decay and global gradient clipping.
#pragma once

#include <cstdint>
#include <span>

#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Learning rate of step `step` (from 0): linear from 0 over the warm-up, which it reaches the peak
/// at the end of; then a half cosine down to min_learning_rate at the last step.
[[nodiscard]] double learning_rate(const TrainConfig& config, std::int64_t step);

/// Σ gradient² over the rank's shards of its parameters, tied copies left out.
[[nodiscard]] double squared_gradient_norm(std::span<const StageParameters> stages);

/// Factor that brings the global norm down to `clip_norm`; 1 when it is below, or clip_norm is 0.
/// The rule is that of torch.nn.utils.clip_grad_norm_.
[[nodiscard]] double clip_factor(double norm, double clip_norm);

/// Whether moments of this type stay finite in an update from gradients of this norm, which is that
/// after scaling: the square of each has a place in the type.
[[nodiscard]] bool usable_norm(double norm, at::ScalarType type);

/// One update of the rank's shards of its parameters with gradients scaled by `gradient_scale`;
/// `step` counts from 0. Compute-type values follow their masters.
void adamw_update(std::span<StageParameters> stages, const TrainConfig& config, std::int64_t step,
                  double gradient_scale);

/// Whether all values in the rank's shards are finite numbers: a bool on the stages' device, for
/// which nobody waits. Reads every value once.
[[nodiscard]] at::Tensor finite_values(std::span<const StageParameters> stages);

void zero_gradients(std::span<StageParameters> stages);

}  // namespace slimpack
