// The shape of any decoder whose steps can be planned, whoever trains it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/spec/layer_shape.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

/// Parameters outside the layers, of a model that is known only as somebody counted it.
struct CountedEdges {
  std::int64_t before = 0;  ///< that the first stage needs
  std::int64_t after = 0;   ///< that the last stage needs
  std::int64_t shared = 0;  ///< of those, what both need: tied embeddings

  bool operator==(const CountedEdges&) const = default;
};

/// A model that can be trained is its ModelShape: `kinds` is empty and its layers are alike. Of
/// other models ModelShape has the sizes of embedding and head, the number of layers and of heads,
/// and nothing else that counts.
struct DecoderShape : ModelShape {
  DecoderShape() = default;
  DecoderShape(const ModelShape& shape) : ModelShape(shape) {}  // NOLINT: is one

  std::vector<LayerShape> kinds;
  std::vector<std::uint8_t> kind_of_layer;  ///< index into `kinds`; empty where that is
  std::optional<CountedEdges> edges;        ///< empty: they follow from the sizes
  std::string config;  ///< config.json, where the shape does not say it all: where there are kinds

  /// At least 1.
  [[nodiscard]] std::size_t num_kinds() const { return kinds.empty() ? 1 : kinds.size(); }
  [[nodiscard]] std::size_t kind_of(std::size_t layer) const {
    return kinds.empty() ? 0 : kind_of_layer[layer];
  }
  /// A layer of this kind. REQUIRES: kind < num_kinds().
  [[nodiscard]] LayerShape layer(std::size_t kind) const;
  /// Whether tp divides heads and experts.
  [[nodiscard]] bool splits_into(std::int32_t tp) const;
  /// By kind, how many of the layers [begin, end) are of it.
  [[nodiscard]] std::vector<std::int64_t> count_kinds(std::size_t begin, std::size_t end) const;
  /// Of all kinds, or of those with experts the part that a token uses. Hide those of ModelShape.
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] std::int64_t active_parameters() const;

  bool operator==(const DecoderShape&) const = default;
};

/// A model whose steps can be planned; it may have features that cannot be trained here.
struct PlannableModel {
  DecoderShape shape;
  std::vector<std::string> untrainable;  ///< these features; none = it can be trained
};

/// As model_shape_from_json and read_model_shape, but refuses only what changes costs in a way that
/// is not known: takes rope scaling of any type, and decoders of the planned families below, with
/// windows and experts. Missing fields have the defaults of transformers.
[[nodiscard]] PlannableModel plannable_model_from_json(std::string_view text,
                                                       std::string_view origin);
[[nodiscard]] PlannableModel read_plannable_model(const std::filesystem::path& config_json);

/// The model as config.json, which plannable_model_from_json reads back as the same shape.
[[nodiscard]] std::string decoder_shape_to_json(const DecoderShape& shape, std::string_view dtype);

}  // namespace slimpack
