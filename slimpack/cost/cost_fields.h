// Fields of cost files that several of their parts have.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "slimpack/base/json_fields.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// Parameters of a layer, or of the model's ends. With this bound and that of state_bytes a model's
/// state can be counted in 64 bits.
inline constexpr std::int64_t kMostParameters = std::int64_t{1} << 40;

/// Bytes of something that each parameter has. Throws InvalidInput above 256.
[[nodiscard]] double state_bytes(const JsonFields& fields, const char* key);

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

/// "trained".
[[nodiscard]] nlohmann::json trained_to_json(const TrainedPart& trained);
/// Throws InvalidInput where a counted shape has fewer parameters than are trained.
[[nodiscard]] TrainedPart trained_field(const JsonFields& fields, const Decoder& shape);

}  // namespace slimpack
