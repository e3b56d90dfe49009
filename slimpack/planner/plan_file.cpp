#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "slimpack-plan-file";
constexpr std::int64_t kVersion = 3;

json prediction_to_json(const RatedPlan& step) {
  const SimulationResult& prediction = step.prediction;
  json busy = json::array();
  for (const Nanos time : prediction.busy) busy.push_back(time.count());
  json peak = json::array();
  for (const Bytes bytes : prediction.peak_activation) peak.push_back(bytes.count());
  return {{"makespan_ns", prediction.makespan.count()},
          {"bubble_ratio", prediction.bubble_ratio},
          {"busy_ns", std::move(busy)},
          {"peak_activation_bytes", std::move(peak)},
          {"lower_bound_ns", step.lower_bound.count()},
          {"gap", step.gap()}};
}

void require_consistent(const PlanFile& file, std::string_view origin) {
  const StepPlan& plan = file.step.plan;
  if (plan.layout.layer_begin.back() != file.cost.shape.num_layers())
    invalid_input("{}: the plan divides {} layers, its cost model has {}; plan again", origin,
                  plan.layout.layer_begin.back(), file.cost.shape.num_layers());
  require_valid_schedules(plan, file.step.schedules, origin);
  if (file.cost.kinds.front().weight_gradient == EdgeTime() &&
      std::ranges::any_of(file.step.schedules,
                          [](const Schedule& own) { return first_split(own).has_value(); }))
    invalid_input(
        "{}: the schedule splits backward, but the cost model has no weight_gradient to say what "
        "the parts take; plan again",
        origin);
  const Abilities able = abilities(file.cost);
  for (const Recompute recompute : plan.recompute)
    if (able.own_layers && !able.knows(recompute))
      invalid_input(
          "{}: the plan computes \"{}\" again, but the cost model's layers run under autograd, "
          "which does not know that; plan again",
          origin, to_string(recompute));
  if (file.cost.host.per_byte == 0 && first_offloading(plan.recompute))
    invalid_input(
        "{}: the plan offloads rows, but the cost model has no host_per_byte to say what that "
        "takes; plan again",
        origin);
}

std::vector<std::vector<double>> speed_from(const JsonFields& fields, const StepPlan& plan) {
  std::vector<std::vector<double>> speed;
  for (const json& row : fields.array("speed")) {
    if (!row.is_array())
      invalid_input("{}: speed[{}] must be an array, found {}; plan again", fields.origin(),
                    speed.size(), row.type_name());
    auto& ranks = speed.emplace_back();
    for (const json& factor : row) {
      if (!factor.is_number() || !(factor.get<double>() > 0))
        invalid_input("{}: an entry of speed is {}, must be a number above 0; plan again",
                      fields.origin(), json_text(factor));
      ranks.push_back(factor.get<double>());
    }
    if (ranks.size() != static_cast<std::size_t>(plan.layout.ranks()))
      invalid_input("{}: speed[{}] has {} entries, the plan has {} ranks; plan again",
                    fields.origin(), speed.size() - 1, ranks.size(), plan.layout.ranks());
  }
  if (!speed.empty() && speed.size() != plan.replicas.size())
    invalid_input("{}: speed has {} rows, the plan has {} replicas; plan again", fields.origin(),
                  speed.size(), plan.replicas.size());
  return speed;
}

void require_version(const JsonFields& fields) {
  if (fields.text("format") == kFormat && fields.integer("version") < kVersion)
    invalid_input(
        "{}: version {} says one recomputation for all layers, version {} one for each; plan again",
        fields.origin(), fields.integer("version"), kVersion);
  fields.require_format(kFormat, kVersion);
}

Nanos bound_from(const JsonFields& fields) {
  return Nanos(fields.object("prediction").integer("lower_bound_ns", 0));
}

}  // namespace

std::string plan_file_to_json(const RatedPlan& step, const Costs& cost,
                              const std::optional<PlanLimits>& limits) {
  json schedules = json::array();
  for (const Schedule& schedule : step.schedules) schedules.push_back(schedule_to_text(schedule));
  json out{{"format", kFormat},
           {"version", kVersion},
           {"plan", parse_json(plan_to_json(step.plan), "plan")},
           {"schedules", std::move(schedules)},
           {"speed", step.speed},
           {"cost", parse_json(cost_to_json(cost), "cost")},
           {"prediction", prediction_to_json(step)}};
  if (limits) out["limits"] = to_json(*limits);
  return json_text(out) + "\n";
}

PlanFile plan_file_from_json(std::string_view text, std::string_view origin) {
  if (origin.ends_with(".toml"))
    invalid_input(
        "{0} is a run configuration and no plan; 'slimpack plan {0} --out plan.json' makes one",
        origin);
  const json parsed = parse_json(text, origin);
  const JsonFields fields(parsed, std::string(origin));
  require_version(fields);
  const auto part = [&](const char* key) { return fmt::format("{}: {}", origin, key); };
  PlanFile file;
  file.step.plan = plan_from_json(json_text(fields.at("plan")), part("plan"));
  require_valid_plan(file.step.plan, origin);  // its placement tells which line has which stages
  for (const json& schedule : fields.array("schedules")) {
    const std::string where = fmt::format("{}[{}]", part("schedules"), file.step.schedules.size());
    if (!schedule.is_string())
      invalid_input("{} must be text, found {}", where, schedule.type_name());
    file.step.schedules.push_back(
        schedule_from_text(schedule.get<std::string>(), where, file.step.plan.layout.placement));
  }
  file.cost = cost_from_json(json_text(fields.at("cost")), part("cost"));
  require_consistent(file, origin);
  file.step.speed = speed_from(fields, file.step.plan);
  file.step.lower_bound = bound_from(fields);
  if (fields.has("limits")) file.limits = plan_limits_from(fields.object("limits"));
  file.step.prediction = predict(file.step, file.cost);
  file.step = runnable(std::move(file.step), file.cost);
  return file;
}

}  // namespace slimpack
