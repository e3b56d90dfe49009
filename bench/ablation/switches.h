// What can be switched off in the planner's search, one thing at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slimpack/planner/planner.h"

namespace slimpack::bench {

struct Switch {
  std::string group;
  std::string name;
  std::function<void(PlanRequest&)> apply;
  /// Whether it can make a difference for the request; otherwise it is not measured there.
  std::function<bool(const PlanRequest&)> matters = [](const PlanRequest&) { return true; };
};

[[nodiscard]] std::vector<Switch> ablation_switches();

}  // namespace slimpack::bench
