// Parts that the readers and writers of config.json share: the differences between the supported
// model families, the families that are planned but not trained here, windows of layers, and
// features that are not supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// The defaults are those of the family's configuration class in `transformers`. They apply when
/// config.json omits the field.
struct FamilyFacts {
  ModelFamily family;
  std::string_view model_type;
  std::string_view class_stem;    ///< "Llama" of LlamaForCausalLM
  std::int64_t default_kv_heads;  ///< 0 = as many as heads
  std::int64_t default_head_dim;  ///< 0 = hidden_size / num_attention_heads
  bool experts = false;           ///< in every layer
  double default_eps = 1e-6;
  double default_rope_theta = 10000.0;
};

[[nodiscard]] std::span<const FamilyFacts> family_facts();
[[nodiscard]] const FamilyFacts& facts_of(ModelFamily family);

/// The names in model_type of the families that are planned but not trained here.
[[nodiscard]] std::vector<std::string_view> planned_families();
/// Whether it is such a family, or one with experts, whose models may have what is only planned.
[[nodiscard]] bool is_planned_family(std::string_view model_type);

/// The part of a config.json that describes its language model: text_config, where there is one,
/// with tie_word_embeddings of the whole model, which transformers follows; else all of it. Where
/// its model_type is a known family's name in larger models ("qwen3_vl_text"), as that family's
/// file.
[[nodiscard]] nlohmann::json language_part(const nlohmann::json& config);

/// Reads a config.json for which is_planned_family holds, and keeps its text.
/// Missing fields have the family's defaults in transformers. Throws InvalidInput that names
/// `origin` and the field: for sizes out of bounds, and together for all features whose cost is not
/// known (unsupported_features).
[[nodiscard]] Decoder planned_decoder_from_json(const nlohmann::json& config,
                                                const std::string& origin);

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

struct UnsupportedFeature {
  std::string text;           ///< field, value and feature
  bool changes_costs = true;  ///< whether it changes the time or memory of a step
};

/// All unsupported features of `config`, in a fixed order; none for a model that can be trained.
/// Throws InvalidInput for a field of the wrong type.
[[nodiscard]] std::vector<UnsupportedFeature> unsupported_features(const nlohmann::json& config,
                                                                   const std::string& origin,
                                                                   ModelFamily family);

/// For models that are planned but not trained: throws InvalidInput that names all features whose
/// cost is not known. `class_stem`: "Gemma2" of Gemma2ForCausalLM.
void refuse_unknown_costs(const nlohmann::json& config, const std::string& origin,
                          std::string_view class_stem);

/// The features that a config.json asks for beyond the decoder that is planned, for models that are
/// planned but not trained.
[[nodiscard]] std::vector<std::string> features_left_out(const nlohmann::json& config);

}  // namespace slimpack
