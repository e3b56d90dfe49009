#include "slimpack/cost/parameter_counts.h"

#include <fmt/format.h>

#include "slimpack/base/human.h"
#include "slimpack/cost/layer_memory.h"

namespace slimpack {
namespace {

/// `held`: what the shape counts.
ParameterCount divided(const Costs& cost, std::int64_t held, std::int64_t trained) {
  return {cost.shape.edges ? held - trained : held, trained};
}

/// The parameters outside of the layers that a stage holds.
std::int64_t at_ends(const CountedEdges& edges, const StageLayout& layout, StageId stage) {
  const bool first = stage.value() == 0;
  const bool last = stage.value() == layout.stages() - 1;
  return (first ? edges.before : 0) + (last ? edges.after : 0) - (first && last ? edges.shared : 0);
}

}  // namespace

std::vector<std::int64_t> kinds_of_stage(const Decoder& shape, const StageLayout& layout,
                                         StageId stage) {
  return shape.count_kinds(static_cast<std::size_t>(layout.layer_begin[stage.index()]),
                           static_cast<std::size_t>(layout.layer_begin[stage.index() + 1]));
}

std::int64_t stage_parameters(const Decoder& shape, const StageLayout& layout, StageId stage) {
  const bool first = stage.value() == 0;
  const bool last = stage.value() == layout.stages() - 1;
  const bool head_is_embedding = first && shape.tie_embeddings;
  const auto layers = kinds_of_stage(shape, layout, stage);
  std::int64_t count = 0;
  for (std::size_t kind = 0; kind < layers.size(); ++kind)
    count += layers[kind] * shape.kinds[kind].parameters();
  if (shape.edges) return count + at_ends(*shape.edges, layout, stage);
  if (last) count += shape.hidden_size();
  if (layout.spread_vocabulary) {
    const std::int64_t share = share_of(shape.embedding_parameters(), layout.ranks());
    if (stage.value() < layout.ranks()) count += share;
    if (stage.value() >= layout.stages() - layout.ranks() && !shape.tie_embeddings) count += share;
    return count;
  }
  if (first) count += shape.embedding_parameters();
  if (last && !head_is_embedding) count += shape.embedding_parameters();
  return count;
}

ParameterCount layer_parameters(const Costs& cost, std::size_t kind) {
  const std::int64_t held = cost.shape.kinds[kind].parameters();
  if (!cost.trained) return {0, held};
  return divided(cost, held, cost.trained->kinds[kind].parameters);
}

ParameterCount stage_parameters(const Costs& cost, const StageLayout& layout, StageId stage) {
  const std::int64_t held = stage_parameters(cost.shape, layout, stage);
  if (!cost.trained) return {0, held};
  const auto layers = kinds_of_stage(cost.shape, layout, stage);
  std::int64_t trained = at_ends(cost.trained->edges, layout, stage);
  for (std::size_t kind = 0; kind < layers.size(); ++kind)
    trained += layers[kind] * cost.trained->kinds[kind].parameters;
  return divided(cost, held, trained);
}

ParameterCount model_parameters(const Costs& cost) {
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers());
  return stage_parameters(cost, {{0, layers}}, StageId(std::int32_t{0}));
}

std::string describe(const ParameterCount& count) {
  const auto number = [](std::int64_t of) { return human_count(static_cast<double>(of)); };
  const std::string all = fmt::format("{} parameters", number(count.all()));
  return count.frozen == 0 ? all
                           : fmt::format("{}, {} of them trained", all, number(count.trained));
}

WeightBytes weight_bytes(const Costs& cost) {
  const double usual =
      cost.autograd ? cost.autograd->state.weights : static_cast<double>(element_bytes(cost.dtype));
  return {usual, cost.trained ? cost.trained->weight_bytes : usual};
}

}  // namespace slimpack
