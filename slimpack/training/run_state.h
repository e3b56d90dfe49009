// The state of a run in a checkpoint, besides weights and optimizer. With it the run goes on as if
// it had never stopped.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/documents.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

class JsonFields;

/// The settings on which the result of training depends, by key, as the configuration has them
/// ("train.steps" → "steps = 100"). They are those of [data] and [train], without clock, device and
/// limits that only end a run. Datasets and model.config are described by their content.
using RunSettings = std::map<std::string, std::string>;

/// The settings of this run, which trains on these documents of config.data.datasets().
[[nodiscard]] RunSettings run_settings(const RunConfig& config, const Decoder& shape,
                                       std::span<const Documents> sources);

struct RunState {
  RunSettings settings;
  SamplerCursor cursor;              ///< after the last trained step
  Tokens tokens;                     ///< trained since the first step
  std::int64_t evaluated_steps = 0;  ///< steps done at the last evaluation, or 0
  /// Plans for other ranks or with other costs add floating-point numbers in another order. So a
  /// run that resumes with the same ranks keeps the layout and the checkpoint's cost model.
  RankGrid grid;
  StageLayout layout;

  bool operator==(const RunState&) const = default;
};

inline constexpr const char* kCostFile = "cost.json";  ///< the cost model's file in a checkpoint

[[nodiscard]] nlohmann::json to_json(const RunState& state);
/// Throws InvalidInput naming a field that is missing, mistyped or out of range.
[[nodiscard]] RunState run_state_from_json(const nlohmann::json& json, const std::string& origin);

/// One line for each changed setting: "train.steps was 100 and is 200 now". A resumed run may
/// change its length and the settings of its optimizer. Throws InvalidInput naming `origin` and the
/// first other setting that differs.
[[nodiscard]] std::vector<std::string> changes_between(const RunSettings& saved,
                                                       const RunSettings& now,
                                                       const std::string& origin);

}  // namespace slimpack
