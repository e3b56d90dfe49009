// A step's plan as the process that made it hands it over to the others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// What ranks run together.
struct HandedPlan {
  StepPlan plan;
  std::vector<Schedule> schedules;  ///< by replica

  bool operator==(const HandedPlan&) const = default;
};

/// Every field of both, compressed, with a checksum.
[[nodiscard]] std::string plan_message(const StepPlan& plan, std::span<const Schedule> schedules);

/// Of a message that is whole, and of plan and schedules that their checkers accept: throws
/// InvalidInput naming `origin` for any other. Says nothing of whether they suit a job.
[[nodiscard]] HandedPlan plan_from_message(std::string_view message, std::string_view origin);

}  // namespace slimpack
