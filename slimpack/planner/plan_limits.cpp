#include "slimpack/planner/plan_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/planner/planner.h"

namespace slimpack {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = std::int64_t{1} << 53;

BackwardKind backward_from(const JsonFields& fields) {
  const std::string text = fields.text("backward");
  for (const BackwardKind kind : {BackwardKind::kWhole, BackwardKind::kSplit})
    if (to_string(kind) == text) return kind;
  invalid_input("{}: backward is \"{}\", must be \"whole\" or \"split\"; plan again",
                fields.origin(), text);
}

}  // namespace

PlanLimits limits_of(const Job& job, const Choices& choices) {
  return {job.context, job.memory_cap, choices.recompute, choices.mixed_recompute,
          choices.backward};
}

PlanLimits limits_shown_by(const RatedPlan& step) {
  PlanLimits limits;
  limits.context = *std::ranges::max_element(step.plan.lengths);
  for (const Recompute recompute : step.plan.recompute)
    if (std::ranges::find(limits.recompute, recompute) == limits.recompute.end())
      limits.recompute.push_back(recompute);
  if (limits.recompute.empty()) limits.recompute = {Recompute::kElementwise};
  limits.mixed_recompute = limits.recompute.size() > 1;
  for (const Schedule& schedule : step.schedules)
    for (const std::vector<Action>& actions : schedule.ranks)
      for (const Action& action : actions)
        if (action.pass == Pass::kWeightGradient) limits.backward = BackwardKind::kSplit;
  return limits;
}

json to_json(const PlanLimits& limits) {
  json recompute = json::array();
  for (const Recompute allowed : limits.recompute) recompute.push_back(to_string(allowed));
  json out{{"context", limits.context.count()},
           {"memory_cap_bytes", nullptr},
           {"recompute", std::move(recompute)},
           {"mixed_recompute", limits.mixed_recompute},
           {"backward", to_string(limits.backward)}};
  if (limits.memory_cap) out["memory_cap_bytes"] = limits.memory_cap->count();
  return out;
}

PlanLimits plan_limits_from(const JsonFields& fields) {
  PlanLimits limits;
  limits.context = Tokens(fields.integer("context", 1, kMost));
  if (fields.has("memory_cap_bytes"))
    limits.memory_cap = Bytes(fields.integer("memory_cap_bytes", 0, kMost));
  for (const json& name : fields.array("recompute")) {
    const std::optional<Recompute> recompute =
        name.is_string() ? recompute_from(name.get<std::string>()) : std::nullopt;
    if (!recompute)
      invalid_input("{}: recompute has {}, which is not known; plan again", fields.origin(),
                    json_text(name));
    limits.recompute.push_back(*recompute);
  }
  if (limits.recompute.empty())
    invalid_input("{}: recompute is empty; plan again", fields.origin());
  limits.mixed_recompute = fields.boolean("mixed_recompute");
  limits.backward = backward_from(fields);
  return limits;
}

}  // namespace slimpack
