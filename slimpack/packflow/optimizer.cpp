#include "slimpack/packflow/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace slimpack {
namespace {

/// The tensors of one call of the fused update.
struct UpdateGroup {
  std::vector<at::Tensor> masters, gradients, first_moments, second_moments, steps;

  void add(const Parameter& p, std::int64_t step) {
    masters.push_back(p.master);
    gradients.push_back(p.gradient);
    first_moments.push_back(p.first_moment);
    second_moments.push_back(p.second_moment);
    steps.push_back(at::full({}, static_cast<double>(step + 1), at::kFloat));
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

double squared_gradient_norm(StageParameters& parameters) {
  double sum = 0;
  parameters.for_each([&](const Parameter& p) {
    if (p.tied_copy) return;
    const double norm =
        at::linalg_vector_norm(p.gradient, 2, {}, false, at::kDouble).item<double>();
    sum += norm * norm;
  });
  return sum;
}

double clip_factor(double norm, double clip_norm) {
  return clip_norm > 0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1.0;
}

void adamw_update(StageParameters& parameters, const TrainConfig& config, std::int64_t step,
                  double gradient_scale) {
  UpdateGroup decayed, plain;
  parameters.for_each([&](Parameter& p) {
    if (gradient_scale != 1.0) p.gradient.mul_(gradient_scale);
    (p.decay ? decayed : plain).add(p, step);
  });
  const double rate = learning_rate(config, step);
  decayed.update(config, rate, config.weight_decay);
  plain.update(config, rate, 0.0);
  parameters.for_each([&](Parameter& p) {
    if (!p.value.is_same(p.master)) p.value.copy_(p.master);
  });
}

void zero_gradients(StageParameters& parameters) {
  parameters.for_each([](Parameter& p) { p.gradient.zero_(); });
}

}  // namespace slimpack
