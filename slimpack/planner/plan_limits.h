// Plan limits: what a step's planner had to keep to.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/recompute.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

class JsonFields;
struct Choices;
struct Job;
struct RatedPlan;

/// A plan file keeps them, so that other planners can get the same in a comparison.
struct PlanLimits {
  Tokens context;                                  ///< a sequence has no more tokens
  std::optional<Bytes> memory_cap = std::nullopt;  ///< activations of a rank
  std::vector<Recompute> recompute;                ///< what layers may compute again
  bool mixed_recompute = false;                    ///< layers of a stage may differ in that
  BackwardKind backward = BackwardKind::kWhole;

  bool operator==(const PlanLimits&) const = default;
};

[[nodiscard]] PlanLimits limits_of(const Job& job, const Choices& choices);

/// The limits of a plan of which no more is known: the longest sequence as its context, no cap, and
/// what the plan itself computes again and splits.
[[nodiscard]] PlanLimits limits_shown_by(const RatedPlan& step);

[[nodiscard]] nlohmann::json to_json(const PlanLimits& limits);
/// Throws InvalidInput naming a field that is missing, mistyped or unknown.
[[nodiscard]] PlanLimits plan_limits_from(const JsonFields& fields);

}  // namespace slimpack
