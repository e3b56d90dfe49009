// What a checkpoint keeps of a run beside weights and optimizer, so that it goes on as if it had
// never been stopped.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/base/units.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// What the result depends on, by key: the settings of [data] and [train] as the configuration has
/// them ("train.steps" → "steps = 100"), without limits that only end a run; for paths, what is
/// found there.
using RunSettings = std::map<std::string, std::string>;

/// `lengths` are those of the dataset's documents.
[[nodiscard]] RunSettings run_settings(const RunConfig& config, const ModelShape& shape,
                                       const std::vector<Tokens>& lengths);

struct RunState {
  RunSettings settings;
  SamplerCursor cursor;              ///< after the last step that was trained
  Tokens tokens;                     ///< trained on from the first step on
  std::int64_t evaluated_steps = 0;  ///< done when the loss was last evaluated, or 0
  /// Plans of other ranks or with other costs add in another order: with the same ranks the layout
  /// is kept, and the checkpoint's cost model used again.
  RankGrid grid;
  StageLayout layout;

  bool operator==(const RunState&) const = default;
};

inline constexpr const char* kCostFile = "cost.json";  ///< beside it, in a checkpoint

[[nodiscard]] nlohmann::json to_json(const RunState& state);
/// Throws InvalidInput naming a field that is missing, mistyped or out of range.
[[nodiscard]] RunState run_state_from_json(const nlohmann::json& json, const std::string& origin);

/// Its "layer_begin". Throws InvalidInput likewise.
[[nodiscard]] StageLayout stage_layout_from_json(const JsonFields& fields);

/// What differs of the settings that a run may change when it goes on, its length and those of its
/// optimizer: "train.steps was 100 and is 200 now". Throws InvalidInput naming `origin` and the
/// first other setting that differs.
[[nodiscard]] std::vector<std::string> changes_between(const RunSettings& saved,
                                                       const RunSettings& now,
                                                       const std::string& origin);

}  // namespace slimpack
