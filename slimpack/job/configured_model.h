// The model that a run's configuration names, or that its cost file has counted, because nobody
// knows the shape of its layers.
#pragma once

#include <optional>
#include <string_view>

#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Throws InvalidInput for a context beyond the model's positions.
void require_positions(const RunConfig& config, const Decoder& shape);

/// The model, for training. Throws InvalidInput for a model, adapters of one, or a sharing of its
/// state that cannot be trained, and for a context beyond its positions.
[[nodiscard]] Decoder trained_model(const RunConfig& config);

/// The model, for planning steps. Allows features that cannot be trained if their cost is known,
/// and lists them. Throws InvalidInput otherwise, as trained_model does.
[[nodiscard]] PlannableModel planned_model(const RunConfig& config);
/// The model whose config.json has this text, for planning steps. Throws as the function above.
[[nodiscard]] PlannableModel planned_model(const RunConfig& config, std::string_view config_json);

/// The shape of a planned model whose layers PackFlow can run and so measure. Throws InvalidInput
/// for others, and for adapters.
[[nodiscard]] Decoder measured_shape(const RunConfig& config, const PlannableModel& model);

/// The model of the cost file, if that is of layers under autograd; nothing otherwise. Throws
/// InvalidInput as planned_model, and where the model's config.json disagrees with that in the cost
/// file about a field that both have and that may change costs.
[[nodiscard]] std::optional<PlannableModel> counted_model(const RunConfig& config);
/// The model of the cost file, compared with this text of a config.json. Throws as the function
/// above.
[[nodiscard]] std::optional<PlannableModel> counted_model(const RunConfig& config,
                                                          std::string_view config_json);

}  // namespace slimpack
