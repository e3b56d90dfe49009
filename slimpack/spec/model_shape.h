// The shape of a decoder-only transformer: everything that planning and training know of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/rope_scaling.h"

namespace slimpack {

enum class ModelFamily : std::uint8_t { kLlama, kQwen2, kQwen3, kMistral };

/// Hugging Face's model_type: "llama", "qwen2", "qwen3", "mistral".
[[nodiscard]] std::string_view to_string(ModelFamily family);

/// Shape of a Llama-like model. Field names follow Hugging Face's config.json where they exist.
struct ModelShape {
  ModelFamily family = ModelFamily::kLlama;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  ///< FFN width f of the gated MLP
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  Tokens max_positions{0};  ///< longest sequence the model allows
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double initializer_range = 0.02;
  bool tie_embeddings = false;
  bool qkv_bias = false;     ///< bias on q, k and v projections
  bool output_bias = false;  ///< bias on the attention output projection
  bool mlp_bias = false;
  bool qk_norm = false;  ///< RMSNorm over each head of q and k before rope (Qwen3)

  [[nodiscard]] std::int64_t q_width() const { return num_heads * head_dim; }
  [[nodiscard]] std::int64_t kv_width() const { return num_kv_heads * head_dim; }
  [[nodiscard]] std::int64_t layer_parameters() const;  ///< of one decoder layer
  /// Of the embedding matrix; the head matrix has as many.
  [[nodiscard]] std::int64_t embedding_parameters() const { return vocab_size * hidden_size; }
  [[nodiscard]] std::int64_t parameters() const;  ///< of the whole model

  bool operator==(const ModelShape&) const = default;
};

/// The shape of one of `tp` tensor-parallel ranks: it has 1/tp of the query heads, the key/value
/// heads and the MLP's columns. Every rank has a key/value head; with more ranks than heads,
/// tp / num_kv_heads ranks share one. All other fields are the model's. Throws InvalidInput unless
/// tp divides num_heads and intermediate_size, and tp and num_kv_heads divide one another.
[[nodiscard]] ModelShape tensor_parallel_part(const ModelShape& shape, std::int32_t tp);

/// Reads the text of a Hugging Face config.json: model_type llama, qwen2, qwen3 or mistral.
/// Throws InvalidInput naming `origin`, the field, the rule and the remedy for missing or
/// inconsistent fields. One such error lists all features that training here would silently get
/// wrong (sliding windows, mixture of experts, rope scaling of types that RopeScaling lacks, other
/// activations).
[[nodiscard]] ModelShape model_shape_from_json(std::string_view text, std::string_view origin);

/// As above, from a file.
[[nodiscard]] ModelShape read_model_shape(const std::filesystem::path& config_json);

/// The config.json that `transformers` (4 and 5) reads back as the same model. `dtype` is
/// "float32", "bfloat16" or "float64". REQUIRES: shape_errors(shape) is empty.
[[nodiscard]] std::string model_shape_to_json(const ModelShape& shape, std::string_view dtype);

/// model_shape_to_json with the other fields of `source`, the config.json that the shape came from:
/// token ids, uses, whatever transformers keeps there. If both have a field, model_shape_to_json
/// wins, except for bos_token_id and eos_token_id. transformers_version is dropped. Throws
/// InvalidInput if `source` is not a JSON object.
[[nodiscard]] std::string model_config_to_json(const ModelShape& shape, std::string_view dtype,
                                               std::string_view source);

/// One line per broken rule: sizes are within bounds (so that no product overflows), kv heads
/// divide heads, head_dim is even, biases and norms are those of the family. Empty for a valid
/// shape.
[[nodiscard]] std::vector<std::string> shape_errors(const ModelShape& shape);

}  // namespace slimpack
