// A decoder-only transformer: everything that planning and training know of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/layer_shape.h"
#include "slimpack/spec/rope_scaling.h"

namespace slimpack {

enum class ModelFamily : std::uint8_t {
  kLlama,
  kQwen2,
  kQwen3,
  kMistral,
  kMixtral,
  kQwen3Moe,
  kOlmoe,
};

/// Hugging Face's model_type: "llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe",
/// "olmoe".
[[nodiscard]] std::string_view to_string(ModelFamily family);

/// Parameters outside the layers, of a model that is known only as somebody counted it.
struct CountedEdges {
  std::int64_t before = 0;  ///< the first stage needs these
  std::int64_t after = 0;   ///< the last stage needs these
  std::int64_t shared = 0;  ///< both stages need these: tied embeddings

  bool operator==(const CountedEdges&) const = default;
};

/// A decoder whose steps can be planned, whoever trains it. Layers of one kind have one LayerShape;
/// kinds are numbered in the order of their first layers. Field names follow Hugging Face's
/// config.json where they exist.
struct Decoder {
  ModelFamily family = ModelFamily::kLlama;  ///< means nothing where `config` is not empty
  std::int64_t vocab_size = 0;
  Tokens max_positions{0};  ///< longest sequence the model allows
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  double initializer_range = 0.02;
  bool tie_embeddings = false;
  std::vector<LayerShape> kinds{LayerShape()};   ///< never empty; all have the same hidden_size
  std::vector<std::uint8_t> kind_of_layer = {};  ///< by layer its index in `kinds`
  std::optional<CountedEdges> edges = {};  ///< empty: embedding and head follow from the sizes
  /// config.json of a model that this version plans but does not train; else empty.
  std::string config = {};

  [[nodiscard]] std::int64_t hidden_size() const { return kinds.front().hidden_size; }
  [[nodiscard]] std::int64_t num_layers() const { return std::ssize(kind_of_layer); }
  /// The index in `kinds` of a layer. REQUIRES: l < num_layers().
  [[nodiscard]] std::size_t kind_of(std::size_t l) const { return kind_of_layer.at(l); }
  /// REQUIRES: l < num_layers().
  [[nodiscard]] const LayerShape& layer(std::size_t l) const { return kinds[kind_of(l)]; }
  /// Gives the model these layers, of which it keeps each kind once. REQUIRES: a layer.
  void set_layers(const std::vector<LayerShape>& layers);
  /// Gives the model so many layers of the first kind.
  void set_layers(std::int64_t count) { kind_of_layer.assign(static_cast<std::size_t>(count), 0); }

  /// Whether tp divides heads and experts. Layers with states are not divided.
  [[nodiscard]] bool splits_into(std::int32_t tp) const;
  /// By kind, how many of the layers [begin, end) are of it.
  [[nodiscard]] std::vector<std::int64_t> count_kinds(std::size_t begin, std::size_t end) const;
  /// Parameters of the embedding matrix. The head matrix has as many.
  [[nodiscard]] std::int64_t embedding_parameters() const { return vocab_size * hidden_size(); }
  [[nodiscard]] std::int64_t parameters() const;
  /// parameters() without the experts that a token is not sent to.
  [[nodiscard]] std::int64_t active_parameters() const;

  bool operator==(const Decoder&) const = default;
};

/// The decoder of one of `tp` tensor-parallel ranks: each layer has 1/tp of the query heads, the
/// key/value heads and the MLP's columns. Every rank has a key/value head; with more ranks than
/// heads, tp / num_kv_heads ranks share one. All other fields are the model's. Throws InvalidInput
/// unless tp divides num_heads and dense_width, and tp and num_kv_heads divide one another; and for
/// a tp above 1 of layers with experts or with norms over all heads.
[[nodiscard]] Decoder tensor_parallel_part(const Decoder& decoder, std::int32_t tp);

/// Reads the text of a Hugging Face config.json of one of the ModelFamily.
/// Throws InvalidInput naming `origin`, the field, the rule and the remedy for missing or
/// inconsistent fields. One such error lists all features that training here would silently get
/// wrong (experts in other families, rope scaling of types that RopeScaling lacks, other
/// activations).
[[nodiscard]] Decoder decoder_from_json(std::string_view text, std::string_view origin);

/// decoder_from_json of a file.
[[nodiscard]] Decoder read_decoder(const std::filesystem::path& config_json);

/// read_decoder of a model that this program generates text with. Throws InvalidInput, too, for
/// models with experts.
[[nodiscard]] Decoder read_generating_decoder(const std::filesystem::path& config_json);

/// A model whose steps can be planned; it may have features that cannot be trained here.
struct PlannableModel {
  Decoder shape;
  std::vector<std::string> untrainable;  ///< these features; none = it can be trained
};

/// Reads what decoder_from_json reads, and refuses only what changes costs in a way that is not
/// known: takes rope scaling of any type, and decoders of planned_families(). Missing fields have
/// the defaults of transformers.
[[nodiscard]] PlannableModel plannable_model_from_json(std::string_view text,
                                                       std::string_view origin);
[[nodiscard]] PlannableModel read_plannable_model(const std::filesystem::path& config_json);

/// The config.json that `transformers` (4 and 5) and plannable_model_from_json read back as the
/// same model. `dtype` is "float32", "bfloat16" or "float64". REQUIRES: decoder_errors(decoder) is
/// empty, or decoder.config is not.
[[nodiscard]] std::string decoder_to_json(const Decoder& decoder, std::string_view dtype);

/// decoder_to_json with the other fields of `source`, the config.json that the decoder came from:
/// token ids, uses, whatever transformers keeps there. If both have a field, decoder_to_json wins,
/// except for bos_token_id and eos_token_id. transformers_version is dropped. Throws InvalidInput
/// if `source` is not a JSON object.
[[nodiscard]] std::string model_config_to_json(const Decoder& decoder, std::string_view dtype,
                                               std::string_view source);

/// One line per broken rule of a decoder that can be trained: sizes are within bounds (so that no
/// product overflows), kv heads divide heads, head_dim is even, biases and norms are those of the
/// family, and so are windows. Empty for a valid decoder.
[[nodiscard]] std::vector<std::string> decoder_errors(const Decoder& decoder);

}  // namespace slimpack
