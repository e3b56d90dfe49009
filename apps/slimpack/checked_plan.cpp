#include "apps/slimpack/checked_plan.h"

#include <span>
#include <utility>

#include "apps/slimpack/configured_request.h"
#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"

namespace slimpack {

RatedPlan checked_plan(const RunConfig& config, const Job& job, const SequenceLengths& lengths,
                       const Choices& choices, const Costs& cost) {
  PlanOutcome outcome = plan_step(job, lengths, choices, cost);
  if (outcome.does_not_fit) throw refused(config, *outcome.does_not_fit);
  RatedPlan planned = *std::move(outcome.step);
  require_valid_plan(planned.plan, "planner");
  const auto errors = check_step_schedules(planned.plan, planned.schedules);
  SLIMPACK_CHECK(errors.empty(), "{}", errors.front());
  return planned;
}

std::string checksum_of_plan(const RatedPlan& planned) {
  std::string text = plan_to_json(planned.plan);
  for (const Schedule& schedule : planned.schedules) text += schedule_to_text(schedule);
  return checksum_of(std::as_bytes(std::span(text)));
}

}  // namespace slimpack
