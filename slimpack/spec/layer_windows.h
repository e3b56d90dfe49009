// Reads from a config.json which layers have a sliding window, and how many keys it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// Returns LayerShape::window by layer. Layers of layer_types "sliding_attention" have the
/// `window`; in a file without layer_types, those that are `windowed`. `window` 0 = the file sets
/// none. A window that no sequence outgrows (max_position_embeddings) changes nothing and is 0,
/// too. Throws InvalidInput for other layer_types, another number of them than `layers`, and a
/// layer with a window that the file does not set.
[[nodiscard]] std::vector<std::int64_t> layer_windows(
    const JsonFields& fields, std::size_t layers, std::int64_t window,
    const std::function<bool(std::size_t)>& windowed);

/// Reads the windows of a family that is trained here, as transformers does: Mistral has the window
/// on all layers, whatever layer_types says. Missing fields have the defaults of transformers.
/// Throws InvalidInput, too, for a window below 1.
[[nodiscard]] std::vector<std::int64_t> layer_windows(const nlohmann::json& config,
                                                      const JsonFields& fields, std::size_t layers,
                                                      ModelFamily family);

}  // namespace slimpack
