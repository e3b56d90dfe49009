#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "slimpack-plan-file";
constexpr std::int64_t kVersion = 1;

json prediction_to_json(const SimulationResult& prediction) {
  json busy = json::array();
  for (const Nanos time : prediction.busy) busy.push_back(time.count());
  json peak = json::array();
  for (const Bytes bytes : prediction.peak_activation) peak.push_back(bytes.count());
  return {{"makespan_ns", prediction.makespan.count()},
          {"bubble_ratio", prediction.bubble_ratio},
          {"busy_ns", std::move(busy)},
          {"peak_activation_bytes", std::move(peak)},
          {"lower_bound_ns", prediction.lower_bound.count()},
          {"gap", prediction.gap()}};
}

void require_consistent(const PlanFile& file, std::string_view origin) {
  const StepPlan& plan = file.step.plan;
  require_valid_plan(plan, origin);
  if (plan.replicas.size() != 1)
    invalid_input("{}: the plan has {} replicas; this program runs plans of 1", origin,
                  plan.replicas.size());
  if (plan.layout.layer_begin.back() != file.cost.shape.num_layers)
    invalid_input("{}: the plan divides {} layers, its cost model has {}; plan again", origin,
                  plan.layout.layer_begin.back(), file.cost.shape.num_layers);
  if (file.step.schedule.stages.size() != static_cast<std::size_t>(plan.layout.stages()))
    invalid_input("{}: the schedule has {} stages, the plan has {}; plan again", origin,
                  file.step.schedule.stages.size(), plan.layout.stages());
  const auto errors = check_schedule(plan.replicas.front().packs, file.step.schedule);
  if (!errors.empty())
    invalid_input("{}: not a correct schedule: {}; plan again", origin, errors.front());
}

}  // namespace

std::string plan_file_to_json(const PlannedStep& step, const CostModel& cost) {
  return json{{"format", kFormat},
              {"version", kVersion},
              {"plan", json::parse(plan_to_json(step.plan))},
              {"schedule", schedule_to_text(step.schedule)},
              {"cost", json::parse(cost_to_json(cost))},
              {"prediction", prediction_to_json(step.prediction)}}
             .dump() +
         "\n";
}

PlanFile plan_file_from_json(std::string_view text, std::string_view origin) {
  const json parsed = parse_json(text, origin);
  const JsonFields fields(parsed, std::string(origin));
  fields.require_format(kFormat, kVersion);
  const auto part = [&](const char* key) { return fmt::format("{}: {}", origin, key); };
  PlanFile file;
  file.step.plan = plan_from_json(fields.at("plan").dump(), part("plan"));
  file.step.schedule = schedule_from_text(fields.text("schedule"), part("schedule"));
  file.cost = cost_from_json(fields.at("cost").dump(), part("cost"));
  require_consistent(file, origin);

  const PackPlan& packs = file.step.plan.replicas.front().packs;
  const TaskTimes times = task_times(file.cost, file.step.plan.layout, packs);
  const TaskBytes bytes = task_bytes(file.cost, file.step.plan.layout, packs,
                                     file.step.plan.lengths);
  file.step.prediction = simulate(packs, file.step.schedule, times, bytes);
  return file;
}

}  // namespace slimpack
