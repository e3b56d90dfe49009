#include "slimpack/packflow/parameters/optimizer.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

namespace slimpack {
namespace {

/// The part of a stretch that a replica owns, from the beginning of its shard.
struct OwnStretch {
  std::int64_t begin = 0;
  std::int64_t size = 0;  ///< 0 or less: nothing

  OwnStretch(const ParameterBucket& bucket, const ParameterBucket::Stretch& stretch)
      : begin(std::max(stretch.begin, bucket.shard.begin) - bucket.shard.begin),
        size(std::min(stretch.end, bucket.shard.end) - bucket.shard.begin - begin) {}
  [[nodiscard]] at::Tensor of(const at::Tensor& tensor_S) const {
    return tensor_S.narrow(0, begin, size);
  }
};

/// The tensors of one call of the fused update.
struct UpdateGroup {
  std::vector<at::Tensor> masters, gradients, first_moments, second_moments, steps;

  void add(const ParameterBucket& bucket, const OwnStretch& own, std::int64_t step) {
    masters.push_back(own.of(bucket.masters_S));
    gradients.push_back(own.of(bucket.shard.of(bucket.gradients_N)));
    first_moments.push_back(own.of(bucket.first_moments_S));
    second_moments.push_back(own.of(bucket.second_moments_S));
    steps.push_back(
        at::full({}, static_cast<double>(step + 1), bucket.masters_S.options().dtype(at::kFloat)));
  }

  void update(const TrainConfig& c, double rate, double weight_decay) const {
    if (masters.empty()) return;
    at::_fused_adamw_(masters, gradients, first_moments, second_moments, {}, steps, rate, c.beta1,
                      c.beta2, weight_decay, c.epsilon, /*amsgrad=*/false, /*maximize=*/false);
  }
};

}  // namespace

double learning_rate(const TrainConfig& config, std::int64_t step) {
  if (step < config.warmup_steps)
    return config.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(config.warmup_steps);
  const auto span =
      static_cast<double>(std::max<std::int64_t>(config.steps - config.warmup_steps - 1, 1));
  const double done = std::min(1.0, static_cast<double>(step - config.warmup_steps) / span);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return config.min_learning_rate + (config.learning_rate - config.min_learning_rate) * cosine;
}

double squared_gradient_norm(std::span<const StageParameters> stages) {
  std::vector<at::Tensor> counted;
  for (const StageParameters& stage : stages)
    for (const ParameterBucket& bucket : stage.buckets)
      for (const ParameterBucket::Stretch& stretch : bucket.stretches) {
        const OwnStretch own(bucket, stretch);
        if (stretch.counted && own.size > 0)
          counted.push_back(own.of(bucket.shard.of(bucket.gradients_N)));
      }
  if (counted.empty()) return 0;
  // The host waits once, for all of them.
  const at::Tensor norms = at::stack(at::_foreach_norm(counted, 2, at::kDouble)).cpu();
  double sum = 0;
  for (const double norm : std::span(norms.const_data_ptr<double>(), counted.size()))
    sum += norm * norm;
  return sum;
}

double clip_factor(double norm, double clip_norm) {
  return clip_norm > 0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1.0;
}

bool usable_norm(double norm, at::ScalarType type) {
  const double largest = type == at::kDouble
                             ? std::numeric_limits<double>::max()
                             : static_cast<double>(std::numeric_limits<float>::max());
  return norm * norm <= largest;  // false for NaN
}

void adamw_update(std::span<StageParameters> stages, const TrainConfig& config, std::int64_t step,
                  double gradient_scale) {
  UpdateGroup decayed, plain;
  for (const StageParameters& stage : stages)
    for (const ParameterBucket& bucket : stage.buckets) {
      if (gradient_scale != 1.0) bucket.shard.of(bucket.gradients_N).mul_(gradient_scale);
      for (const ParameterBucket::Stretch& stretch : bucket.stretches) {
        const OwnStretch own(bucket, stretch);
        if (own.size > 0) (stretch.decay ? decayed : plain).add(bucket, own, step);
      }
    }
  const double rate = learning_rate(config, step);
  decayed.update(config, rate, config.weight_decay);
  plain.update(config, rate, 0.0);
  for (const StageParameters& stage : stages)
    for (const ParameterBucket& bucket : stage.buckets)
      if (bucket.values_N.scalar_type() != bucket.masters_S.scalar_type())
        bucket.shard.of(bucket.values_N).copy_(bucket.masters_S);
}

// A NaN is both the smallest and the largest value.
at::Tensor finite_values(std::span<const StageParameters> stages) {
  std::vector<at::Tensor> extremes;
  for (const StageParameters& stage : stages)
    for (const ParameterBucket& bucket : stage.buckets) {
      if (bucket.shard.size() == 0) continue;
      const auto [smallest, largest] = at::aminmax(bucket.shard.of(bucket.values_N));
      extremes.insert(extremes.end(), {smallest, largest});
    }
  if (extremes.empty()) return at::ones({}, at::kBool);
  return at::isfinite(at::stack(extremes)).all();
}

void zero_gradients(std::span<StageParameters> stages) {
  for (const StageParameters& stage : stages)
    for (const ParameterBucket& bucket : stage.buckets) bucket.gradients_N.zero_();
}

}  // namespace slimpack
