#include "slimpack/spec/decoder_shape.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace slimpack {

namespace {

/// Of the layers, each counted by `count`, and of what is outside of them.
template <class Count>
std::int64_t counted(const DecoderShape& shape, Count count) {
  const std::int64_t matrices = shape.tie_embeddings ? 1 : 2;
  std::int64_t sum = shape.edges ? shape.edges->before + shape.edges->after - shape.edges->shared
                                 : matrices * shape.embedding_parameters() + shape.hidden_size;
  for (std::size_t l = 0; l < static_cast<std::size_t>(shape.num_layers); ++l)
    sum += count(shape.layer(shape.kind_of(l)));
  return sum;
}

}  // namespace

LayerShape DecoderShape::layer(std::size_t kind) const {
  return kinds.empty() ? layer_shape(*this) : kinds[kind];
}

bool DecoderShape::splits_into(std::int32_t tp) const {
  return num_heads % tp == 0 &&
         std::ranges::all_of(kinds, [&](const LayerShape& kind) { return kind.experts % tp == 0; });
}

std::vector<std::int64_t> DecoderShape::count_kinds(std::size_t begin, std::size_t end) const {
  std::vector<std::int64_t> counts(num_kinds());
  for (std::size_t layer = begin; layer < end; ++layer) ++counts[kind_of(layer)];
  return counts;
}

std::int64_t DecoderShape::parameters() const {
  return counted(*this, [](const LayerShape& layer) { return layer.parameters(); });
}

std::int64_t DecoderShape::active_parameters() const {
  return counted(*this, [](const LayerShape& layer) { return layer.active_parameters(); });
}

std::string decoder_shape_to_json(const DecoderShape& shape, std::string_view dtype) {
  if (shape.kinds.empty()) return model_shape_to_json(shape, dtype);
  nlohmann::json config = nlohmann::json::parse(shape.config);
  config["dtype"] = config["torch_dtype"] = dtype;
  return config.dump(2) + "\n";
}

}  // namespace slimpack
