#include "slimpack/cost/parameter_counts.h"

#include <fmt/format.h>

#include "slimpack/base/human.h"

namespace slimpack {
namespace {

/// `held`: what the shape counts.
ParameterCount divided(const Costs& cost, std::int64_t held, std::int64_t trained) {
  return {cost.shape.edges ? held - trained : held, trained};
}

}  // namespace

ParameterCount layer_parameters(const Costs& cost, std::size_t kind) {
  const std::int64_t held = cost.shape.kinds[kind].parameters();
  if (!cost.trained) return {0, held};
  return divided(cost, held, cost.trained->kinds[kind].parameters);
}

ParameterCount stage_parameters(const Costs& cost, const StageLayout& layout, StageId stage) {
  const std::int64_t held = stage_parameters(cost.shape, layout, stage);
  if (!cost.trained) return {0, held};
  const auto layers =
      cost.shape.count_kinds(static_cast<std::size_t>(layout.layer_begin[stage.index()]),
                             static_cast<std::size_t>(layout.layer_begin[stage.index() + 1]));
  const bool first = stage.value() == 0;
  const bool last = stage.value() == layout.stages() - 1;
  const CountedEdges& edges = cost.trained->edges;
  std::int64_t trained =
      (first ? edges.before : 0) + (last ? edges.after : 0) - (first && last ? edges.shared : 0);
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
