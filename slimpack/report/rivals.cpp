#include "slimpack/report/rivals.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/baselines/baseline.h"

namespace slimpack {

Job job_of(const PlanFile& file, const PlanLimits& limits) {
  const StepPlan& plan = file.step.plan;
  const Tokens longest = *std::ranges::max_element(plan.lengths);
  return {.layout = plan.layout,
          .replicas = static_cast<std::int32_t>(plan.replicas.size()),
          .speed = file.step.speed,
          .memory_cap = limits.memory_cap,
          .context = std::max(limits.context, longest)};
}

Choices choices_within(const PlanLimits& limits) {
  Choices choices;
  choices.backward = limits.backward;
  choices.recompute = limits.recompute;
  choices.mixed_recompute = limits.mixed_recompute;
  return choices;
}

RatedPlan packed_rival(const PlanFile& file, const PlanLimits& limits) {
  return published_step(packed_baseline(), job_of(file, limits), file.step.plan.lengths,
                        choices_within(limits), file.cost);
}

std::vector<ComparedPlanner> rivals_of(const PlanFile& file, const PlanLimits& limits,
                                       const std::string& planner,
                                       const std::function<void()>& advance,
                                       const std::function<void()>& tick) {
  const std::array jobs{job_of(file, limits)};
  std::vector<ComparedPlanner> rows{{planner, figures_of(file.step, file.cost), "", Nanos(0)}};
  rows.front().stages_per_rank = file.step.plan.layout.placement.stages_per_rank();
  for (const Baseline& baseline : baselines()) {
    rows.push_back(compared(std::string(baseline.name), jobs, file.step.plan.lengths,
                            choices_within(limits), file.cost, tick));
    advance();
  }
  return rows;
}

nlohmann::ordered_json rivals_for_page(const std::vector<ComparedPlanner>& rows,
                                       const std::optional<Bytes>& cap) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ComparedPlanner& row : rows) {
    out.push_back(nlohmann::ordered_json(to_json(row)));
    out.back()["fits"] = fits(row, cap);
    out.back().erase("planning_seconds");  // the same files make the same page
  }
  return out;
}

}  // namespace slimpack
