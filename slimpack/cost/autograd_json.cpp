#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/base/json_text.h"
#include "slimpack/cost/cost_fields.h"

namespace slimpack {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostVocabulary = std::int64_t{1} << 24;
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;
constexpr std::size_t kMostLayers = 4096;
constexpr std::size_t kMostKinds = 255;

json graph_to_json(const KeptGraph& graph) {
  return {{"forward", pack_cost_to_json(graph.forward)},
          {"backward", pack_cost_to_json(graph.backward)},
          {"bytes", pack_cost_to_json(graph.bytes)},
          {"backward_peak", pack_cost_to_json(graph.backward_peak)}};
}

KeptGraph graph_of(const JsonFields& f, std::int64_t window) {
  const auto form = [&](const char* key) { return pack_cost_field(f.object(key), window); };
  return {.forward = form("forward"),
          .backward = form("backward"),
          .bytes = form("bytes"),
          .backward_peak = form("backward_peak")};
}

json layer_to_json(const LayerShape& shape, const AutogradLayer& layer) {
  json out = {{"window", shape.window},
              {"parameters", shape.counted_parameters},
              {"weights", shape.counted_weights},
              {"query_width", shape.head_dim},
              {"output_width", shape.value_dim},
              {"kv_bytes", layer.kv_bytes},
              {"nothing", graph_to_json(layer.whole)},
              {"elementwise", graph_to_json(layer.elementwise)},
              {"forward_peak", pack_cost_to_json(layer.forward_peak)}};
  if (layer.has_state())
    out["state"] = {{"bytes", layer.state_bytes},
                    {"gradient_bytes", layer.state_gradient_bytes},
                    {"products", shape.state.multiplied}};
  return out;
}

/// The heads of a counted layer are as one: only their widths together count. Widths of 0: it has
/// no attention.
LayerShape layer_shape_of(const JsonFields& f, std::int64_t hidden_size) {
  LayerShape shape{.hidden_size = hidden_size};
  shape.head_dim = f.integer("query_width", 0, kMostWidth);
  const std::int64_t attends = shape.head_dim > 0 ? 1 : 0;
  shape.num_heads = shape.num_kv_heads = attends;
  shape.value_dim = f.integer("output_width", attends, attends * kMostWidth);
  if (f.has("state"))
    shape.state.multiplied = f.object("state").integer("products", 0, kMostParameters);
  shape.window = f.integer("window", 0, kMostTokens);
  shape.counted_parameters = f.integer("parameters", 1, kMostParameters);
  shape.counted_weights = f.integer("weights", 0, shape.counted_parameters);
  return shape;
}

AutogradLayer layer_of(const JsonFields& f, std::int64_t window) {
  AutogradLayer layer{.whole = graph_of(f.object("nothing"), window),
                      .elementwise = graph_of(f.object("elementwise"), window),
                      .forward_peak = pack_cost_field(f.object("forward_peak"), window),
                      .kv_bytes = non_negative(f, "kv_bytes")};
  if (!f.has("state")) return layer;
  const JsonFields state = f.object("state");
  layer.state_bytes = non_negative(state, "bytes");
  layer.state_gradient_bytes = non_negative(state, "gradient_bytes");
  if (!layer.has_state())
    invalid_input(
        "{}: field \"bytes\" is 0, a state has some; leave \"state\" out, or profile again",
        state.origin());
  return layer;
}

void read_layers(const JsonFields& fields, Costs& cost) {
  const std::int64_t hidden_size = fields.integer("hidden_size", 1, kMostWidth);
  const json& layers = fields.array("layers");
  if (layers.empty() || layers.size() > kMostKinds)
    invalid_input("{}: field \"layers\" has {} kinds, allowed are 1 to {}; profile again",
                  fields.origin(), layers.size(), kMostKinds);
  std::int64_t window = 0;
  for (const json& layer : layers) {
    const JsonFields f(layer,
                       fmt::format("{}: layers[{}]", fields.origin(), cost.shape.kinds.size()));
    const LayerShape& shape = cost.shape.kinds.emplace_back(layer_shape_of(f, hidden_size));
    if (shape.window > 0 && window > 0 && shape.window != window)
      invalid_input(
          "{}: field \"window\" is {}, another layer's is {}; only models whose windows are alike "
          "can be planned",
          f.origin(), shape.window, window);
    window = std::max(window, shape.window);
    cost.autograd->layers.push_back(layer_of(f, shape.window));
  }
  const json& kinds = fields.array("kind_of_layer");
  if (kinds.empty() || kinds.size() > kMostLayers)
    invalid_input("{}: field \"kind_of_layer\" has {} layers, allowed are 1 to {}; profile again",
                  fields.origin(), kinds.size(), kMostLayers);
  for (const json& kind : kinds)
    cost.shape.kind_of_layer.push_back(static_cast<std::uint8_t>(
        json_integer(kind, fmt::format("{}: kind_of_layer", fields.origin()), 0,
                     static_cast<std::int64_t>(layers.size()) - 1)));
  std::uint8_t seen = 0;
  for (const std::uint8_t kind : cost.shape.kind_of_layer) seen += kind == seen ? 1 : 0;
  const std::uint8_t most = *std::ranges::max_element(cost.shape.kind_of_layer);
  if (seen != layers.size() || most >= seen)
    invalid_input(
        "{}: field \"kind_of_layer\" names {} of {} kinds in the order of their first layers; "
        "number the kinds as they come",
        fields.origin(), seen, layers.size());
}

}  // namespace

double state_bytes(const JsonFields& fields, const char* key) {
  constexpr double kMost = 256;
  const double bytes = non_negative(fields, key);
  if (bytes > kMost)
    invalid_input("{}: field \"{}\" is {} bytes of a parameter, must be at most {}; profile again",
                  fields.origin(), key, bytes, kMost);
  return bytes;
}

json autograd_to_json(const Costs& cost) {
  const AutogradCosts& autograd = *cost.autograd;
  const CountedEdges& edges = *cost.shape.edges;
  json layers = json::array();
  for (std::size_t kind = 0; kind < autograd.layers.size(); ++kind)
    layers.push_back(layer_to_json(cost.shape.kinds[kind], autograd.layers[kind]));
  return {{"hidden_size", cost.shape.hidden_size()},
          {"vocab_size", cost.shape.vocab_size},
          {"max_positions", cost.shape.max_positions.count()},
          {"parameters_before", edges.before},
          {"parameters_after", edges.after},
          {"parameters_shared", edges.shared},
          {"kind_of_layer", cost.shape.kind_of_layer},
          {"layers", std::move(layers)},
          {"stage", edge_time_to_json(autograd.stage)},
          {"head_peak", edge_time_to_json(autograd.head_peak)},
          {"state_bytes",
           {{"weights", autograd.state.weights},
            {"gradients", autograd.state.gradients},
            {"optimizer", autograd.state.optimizer}}}};
}

void read_autograd(const JsonFields& fields, const json& config, Costs& cost) {
  Decoder& shape = cost.shape;
  shape.vocab_size = fields.integer("vocab_size", 1, kMostVocabulary);
  shape.max_positions = Tokens(fields.integer("max_positions", 1, kMostTokens));
  shape.kinds.clear();
  CountedEdges& edges = shape.edges.emplace();
  edges.before = fields.integer("parameters_before", 0, kMostParameters);
  edges.after = fields.integer("parameters_after", 0, kMostParameters);
  edges.shared = fields.integer("parameters_shared", 0, std::min(edges.before, edges.after));
  AutogradCosts& autograd = cost.autograd.emplace();
  read_layers(fields, cost);
  autograd.stage = edge_time_field(fields.object("stage"));
  autograd.head_peak = edge_time_field(fields.object("head_peak"));
  const JsonFields state = fields.object("state_bytes");
  autograd.state = {state_bytes(state, "weights"), state_bytes(state, "gradients"),
                    state_bytes(state, "optimizer")};
  json kept = config;
  for (const char* key : {"dtype", "torch_dtype"}) kept.erase(key);  // the run's to choose
  shape.config = json_text(kept);
}

}  // namespace slimpack
