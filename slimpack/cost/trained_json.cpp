#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_fields.h"

namespace slimpack {
namespace {

using nlohmann::json;

TrainedLayer trained_layer_of(const JsonFields& f, std::int64_t most) {
  TrainedLayer layer;
  layer.parameters = f.integer("parameters", 0, most);
  layer.weights = f.integer("weights", 0, layer.parameters);
  return layer;
}

}  // namespace

json trained_to_json(const TrainedPart& trained) {
  json layers = json::array();
  for (const TrainedLayer& layer : trained.kinds)
    layers.push_back({{"parameters", layer.parameters}, {"weights", layer.weights}});
  return {{"layers", std::move(layers)},
          {"before", trained.edges.before},
          {"after", trained.edges.after},
          {"shared", trained.edges.shared},
          {"weight_bytes", trained.weight_bytes}};
}

TrainedPart trained_field(const JsonFields& fields, const Decoder& shape) {
  const json& layers = fields.array("layers");
  if (layers.size() != shape.kinds.size())
    invalid_input("{}: field \"layers\" has {} entries, the model has {} kinds of layers; {}",
                  fields.origin(), layers.size(), shape.kinds.size(), "profile again");
  TrainedPart trained;
  for (const json& layer : layers) {
    const std::size_t kind = trained.kinds.size();
    const std::int64_t most = shape.edges ? shape.kinds[kind].parameters() : kMostParameters;
    trained.kinds.push_back(trained_layer_of(
        JsonFields(layer, fmt::format("{}: layers[{}]", fields.origin(), kind)), most));
  }
  CountedEdges& edges = trained.edges;
  edges.before = fields.integer("before", 0, shape.edges ? shape.edges->before : kMostParameters);
  edges.after = fields.integer("after", 0, shape.edges ? shape.edges->after : kMostParameters);
  // No more may be trained than both ends have together.
  const std::int64_t twice =
      shape.edges ? edges.before + edges.after -
                        (shape.edges->before + shape.edges->after - shape.edges->shared)
                  : 0;
  edges.shared = fields.integer("shared", std::max<std::int64_t>(0, twice),
                                std::min(edges.before, edges.after));
  trained.weight_bytes = state_bytes(fields, "weight_bytes");
  return trained;
}

}  // namespace slimpack
