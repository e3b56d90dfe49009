// Fields of cost files that several of their parts have.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "slimpack/base/json_fields.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// Throws InvalidInput for a number below 0 or above kLargestFigure, with which times would
/// overflow.
[[nodiscard]] double non_negative(const JsonFields& fields, const char* key);

[[nodiscard]] nlohmann::json edge_time_to_json(const EdgeTime& time);
[[nodiscard]] EdgeTime edge_time_field(const JsonFields& fields);

[[nodiscard]] nlohmann::json pack_cost_to_json(const PackCost& cost);
/// Reads the costs of a layer with this window; 0 = the layer has none.
[[nodiscard]] PackCost pack_cost_field(const JsonFields& fields, std::int64_t window);

/// "autograd": the model as it was counted, and AutogradCosts.
[[nodiscard]] nlohmann::json autograd_to_json(const Costs& cost);
/// Sets cost.shape and cost.autograd. `config`: the model's config.json.
void read_autograd(const JsonFields& fields, const nlohmann::json& config, Costs& cost);

}  // namespace slimpack
