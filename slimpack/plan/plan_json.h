// Stage layouts as JSON, for every file that holds one.
#pragma once

#include <nlohmann/json.hpp>

#include "slimpack/base/json_fields.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Fields "layer_begin", "stages_per_rank" and "spread_vocabulary"; also "rank_of_stage" unless
/// stage s is on rank s mod the number of ranks.
[[nodiscard]] nlohmann::json stage_layout_to_json(const StageLayout& layout);

/// Reads these fields. Without "stages_per_rank" a rank has one stage; without "spread_vocabulary"
/// it is not spread. Throws InvalidInput naming the origin of `fields` and the rule: a value of
/// another type or range, or ranks with unequally many stages. check_plan has the other rules.
[[nodiscard]] StageLayout stage_layout_from_json(const JsonFields& fields);

}  // namespace slimpack
