// The message with which one process hands a step's plan over to the others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {

/// A plan and what its ranks do: everything that they need to run a step together.
struct HandedPlan {
  StepPlan plan;
  std::vector<LoweredSchedule> lowered;  ///< by replica

  bool operator==(const HandedPlan&) const = default;
};

/// All fields of both, compressed, with a checksum.
[[nodiscard]] std::string plan_message(const StepPlan& plan,
                                       std::span<const LoweredSchedule> lowered);

/// The plan of a message. Throws InvalidInput naming `origin` if the message is damaged, or if
/// check_plan or check_lowered finds an error. Does not check that the plan suits a job.
[[nodiscard]] HandedPlan plan_from_message(std::string_view message, std::string_view origin);

}  // namespace slimpack
