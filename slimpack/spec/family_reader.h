// Parts that the readers of planned families share: a model's layers while they are read, the
// fields of a config.json with a family's defaults, and the families. Only the room spec includes
// this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/layer_shape.h"
#include "slimpack/spec/state_mixer.h"

namespace slimpack {

using LayerTest = std::function<bool(std::size_t)>;

/// The parts of Layers that a layer consists of.
struct LayerParts {
  bool attention = true;
  bool state = false;
  bool dense = true;     ///< the MLP of Layers::dense
  bool experts = false;  ///< the MLP of Layers::sparse, in place of that

  bool operator==(const LayerParts&) const = default;
};

/// A model's layers, while they are read.
struct Layers {
  LayerShape dense;                   ///< with the family's dense MLP
  LayerShape sparse;                  ///< of layers with experts: their MLP
  StateMixer state;                   ///< of layers with a state
  std::vector<std::int64_t> windows;  ///< by layer; empty = none has one
  std::vector<LayerParts> parts;      ///< by layer
};

/// The fields of a config.json, with a family's defaults. All throw InvalidInput naming file, field
/// and rule.
class FamilyReader {
 public:
  static constexpr std::int64_t kMaxSize = kMaxPositions;  // products of two can be held

  FamilyReader(const JsonFields& fields, const nlohmann::json& config, std::size_t layers)
      : fields_(fields), config_(config), layers_(layers) {}

  [[nodiscard]] std::int64_t size(const char* key, std::int64_t otherwise) const {
    return fields_.has(key) ? fields_.integer(key, 0, kMaxSize) : otherwise;
  }
  /// The size of the first of these names that the file has.
  [[nodiscard]] std::int64_t size(std::initializer_list<const char*> keys,
                                  std::int64_t otherwise) const;
  /// 0 where the file says null.
  [[nodiscard]] std::int64_t optional_size(const char* key, std::int64_t otherwise) const {
    return config_.contains(key) && !fields_.has(key) ? 0 : size(key, otherwise);
  }
  /// A size of a state: 1 to kMaxWidth.
  [[nodiscard]] std::int64_t width(const char* key, std::int64_t otherwise) const {
    return fields_.has(key) ? fields_.integer(key, 1, kMaxWidth) : otherwise;
  }
  /// Throws unless a width that several sizes make is 1 to kMaxWidth.
  void require_width(std::string_view what, std::int64_t width) const;
  [[nodiscard]] bool flag(const char* key, bool otherwise = false) const {
    return fields_.has(key) ? fields_.boolean(key) : otherwise;
  }
  [[nodiscard]] bool has(const char* key) const { return fields_.has(key); }
  /// Whether the file has a text there that is this one, as "auto" stands for a size.
  [[nodiscard]] bool says(const char* key, std::string_view text) const {
    return config_.contains(key) && config_.at(key) == text;
  }
  [[nodiscard]] const JsonFields& fields() const { return fields_; }
  [[nodiscard]] std::size_t layers() const { return layers_; }

  /// Layers with the window that the file names: those of layer_types, else those of the family.
  void read_window(Layers& out, std::int64_t window, const LayerTest& is_windowed) const;
  void read_experts(Layers& out, std::int64_t experts, std::int64_t per_token, std::int64_t width,
                    const LayerTest& has_experts) const;
  /// Names of an array, each of which is a type of layer in `known`; transformers' older names
  /// count as the newer ones. Empty where the file has no such array. Throws unless there is one
  /// for each layer.
  [[nodiscard]] std::vector<std::string> types(const char* key,
                                               std::span<const std::string_view> known) const;
  /// Integers of an array; none where the file has none.
  [[nodiscard]] std::vector<std::int64_t> integers(const char* key) const;

 private:
  const JsonFields& fields_;
  const nlohmann::json& config_;
  std::size_t layers_;
};

/// A family's layers, as far as its fields say. Defaults are those of the family's configuration
/// class in transformers.
struct PlannedFamily {
  static constexpr std::int64_t kNone = -1;  ///< the family has no such size

  std::string_view model_type;
  std::string_view class_stem;
  std::int64_t default_kv_heads;  ///< 0 = as many as heads
  std::int64_t default_head_dim;  ///< 0 = hidden_size / num_attention_heads
  bool default_tied;
  void (*read)(const FamilyReader&, Layers&);
  std::int64_t default_heads = 0;      ///< 0 = a file must say it; kNone = no attention
  std::int64_t default_width = 0;      ///< of the MLP; 0 = a file must say it; kNone = in `read`
  std::int64_t default_positions = 0;  ///< 0 = a file must say it
};

/// Experts on layers from first_k_dense_replace on, with shared experts beside those that tokens
/// choose.
void read_shared_experts(const FamilyReader& in, Layers& out, std::int64_t dense_layers,
                         std::int64_t experts, std::int64_t width);
/// Latent attention as DeepSeek's; `q_rank` 0 = queries are products of the hidden state.
void read_latents(const FamilyReader& in, Layers& out, std::int64_t q_rank);
void read_biases(const FamilyReader& in, Layers& out);
/// Experts on every decoder_sparse_step-th layer but mlp_only_layers.
[[nodiscard]] LayerTest sparse_steps(const FamilyReader& in);

/// The families whose layers have states.
[[nodiscard]] std::span<const PlannedFamily> state_families();

}  // namespace slimpack
