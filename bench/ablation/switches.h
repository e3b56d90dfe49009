// What can be switched off in the planner's search, one thing at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/planner/jobs.h"

namespace slimpack::bench {

struct Switch {
  std::string group;
  std::string name;
  std::function<void(StepJob&)> apply;
  /// Whether it can make a difference for the step; otherwise it is not measured there.
  std::function<bool(const StepJob&)> matters = [](const StepJob&) { return true; };
};

[[nodiscard]] std::vector<Switch> ablation_switches();

/// The step with symmetric cuts, or asymmetric ones, and no others.
[[nodiscard]] StepJob with_cuts(StepJob step, bool asymmetric);

}  // namespace slimpack::bench
