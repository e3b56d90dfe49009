// The costs of a sweep's points.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "slimpack/cost/cost_model.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Finds what each point's run would find, but measures ranks that are alike only once.
class SweepCosts {
 public:
  /// `tell` gets the lines of measured_costs.
  explicit SweepCosts(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  /// The configured costs. Without any, measured ones; ranks are alike if their model, number
  /// format, tp, context, number, merging, clock and device are the same. Throws InvalidInput as
  /// trained_model, configured_cost and configured_profile.
  [[nodiscard]] Costs of(const RunConfig& config);

 private:
  std::function<void(const std::string&)> tell_;
  std::deque<std::pair<ProfileOptions, Costs>> measured_;
};

}  // namespace slimpack
