#include "slimpack/plan/stage_layout_json.h"

#include <algorithm>
#include <string>
#include <vector>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

std::vector<std::int32_t> integers(const JsonFields& fields, const char* key) {
  std::vector<std::int32_t> values;
  const std::string where = fields.origin() + ": an entry of " + key;
  for (const nlohmann::json& value : fields.array(key))
    values.push_back(static_cast<std::int32_t>(json_integer(value, where, 0, INT32_MAX)));
  return values;
}

StagePlacement table_from(const JsonFields& fields, std::int32_t stages,
                          std::int32_t stages_per_rank) {
  std::vector<std::int32_t> rank_of_stage = integers(fields, "rank_of_stage");
  if (std::ssize(rank_of_stage) != stages)
    invalid_input("{}: rank_of_stage has {} entries for {} stages; plan again", fields.origin(),
                  rank_of_stage.size(), stages);
  for (std::int32_t rank = 0; rank < stages / stages_per_rank; ++rank)
    if (const auto own = std::ranges::count(rank_of_stage, rank); own != stages_per_rank)
      invalid_input("{}: rank_of_stage gives rank {} {} stages, stages_per_rank is {}; plan again",
                    fields.origin(), rank, own, stages_per_rank);
  return StagePlacement(std::move(rank_of_stage));
}

}  // namespace

nlohmann::json stage_layout_to_json(const StageLayout& layout) {
  const StagePlacement& placement = layout.placement;
  const std::int32_t per_rank = placement.stages_per_rank();
  nlohmann::json json{{"layer_begin", layout.layer_begin},
                      {"stages_per_rank", per_rank},
                      {"spread_vocabulary", layout.spread_vocabulary}};
  if (placement != StagePlacement::looped(layout.ranks(), per_rank))
    json["rank_of_stage"] = placement.rank_of_stage();
  return json;
}

StageLayout stage_layout_from_json(const JsonFields& fields) {
  StageLayout layout{integers(fields, "layer_begin")};
  layout.spread_vocabulary = fields.has("spread_vocabulary") && fields.boolean("spread_vocabulary");
  const std::int32_t stages = layout.stages();
  const auto per_rank =
      fields.has("stages_per_rank")
          ? static_cast<std::int32_t>(fields.integer("stages_per_rank", 1, INT32_MAX))
          : 1;
  if (stages < 1) return layout;  // check_plan says it
  if (stages % per_rank != 0)
    invalid_input("{}: {} stages cannot sit on ranks of {} stages each; plan again",
                  fields.origin(), stages, per_rank);
  layout.placement = fields.has("rank_of_stage")
                         ? table_from(fields, stages, per_rank)
                         : StagePlacement::looped(stages / per_rank, per_rank);
  return layout;
}

}  // namespace slimpack
