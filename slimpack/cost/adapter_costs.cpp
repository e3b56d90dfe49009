// Adapters of a frozen model, from a hardware specification (docs/hardware.md). A map Y = X·W has
// an adapter X·A·B beside it, where A·B has the shape of W and the rank in between.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/cost/hardware_job.h"

namespace slimpack {
namespace {

constexpr double kMaps = 7;              ///< of a layer: q, k, v, o, gate, up, down
constexpr double kForwardLaunches = 12;  ///< that forward_overhead_us stands for

void require_adaptable(const Decoder& shape, std::int64_t rank) {
  if (rank > shape.hidden_size())
    invalid_input(
        "model.adapter_rank is {}, must be at most the model's hidden_size, {}: beyond it an "
        "adapter is no smaller than what it adapts; give a lower rank",
        rank, shape.hidden_size());
  for (const LayerShape& layer : shape.kinds)
    if (layer.experts > 0 || layer.has_state())
      invalid_input(
          "model.adapter_rank is {}, but the model has {}, of which each family adapts other "
          "maps; measure it with slimpack.torch.profile(..., adapter=...) and plan with cost.file",
          rank, layer.experts > 0 ? "experts" : "states");
}

/// Products that are so narrow take as long as their FLOPs, or as what they move does.
class Adapters {
 public:
  Adapters(const HardwareJob& job, std::int64_t rank)
      : job_(job),
        parameters_(rank * (job.layer.map_inputs() + job.layer.map_outputs())),
        inputs_(static_cast<double>(job.layer.map_inputs())),
        outputs_(static_cast<double>(job.layer.map_outputs())) {}

  [[nodiscard]] std::int64_t parameters() const { return parameters_; }
  [[nodiscard]] double reading() const { return job_.reading(static_cast<double>(parameters_)); }

  /// X is read. What the map gave is read, and written with X·A·B.
  [[nodiscard]] EdgeTime forward() const {
    return {.per_pack = launches(2) + reading(), .per_token = products(inputs_ + 2 * outputs_)};
  }
  /// dY is read. The map's dX is read, and written with dY·Bᵀ·Aᵀ.
  [[nodiscard]] EdgeTime input_gradient() const {
    return {.per_pack = launches(2) + reading(), .per_token = products(outputs_ + 2 * inputs_)};
  }
  /// X and dY are read, the sums of both gradients read and written.
  [[nodiscard]] EdgeTime weight_gradient() const {
    return {.per_pack = launches(2) + job_.adding(static_cast<double>(parameters_)),
            .per_token = products(inputs_ + outputs_)};
  }

 private:
  [[nodiscard]] double launches(double of_map) const {
    return of_map * kMaps / kForwardLaunches * job_.hardware.forward_overhead_us * kNanosPerMicro;
  }
  /// Nanoseconds of a token in one product with A and one with B that move so many numbers.
  [[nodiscard]] double products(double moved) const {
    const double flops = 2 * static_cast<double>(parameters_);
    return std::max(flops / job_.hardware.linear_flops * kNanosPerSecond,
                    moved * job_.element() * job_.nanos_per_memory_byte()) /
           job_.tp;
  }

  const HardwareJob& job_;
  std::int64_t parameters_;
  double inputs_, outputs_;
};

void add(PackCost& cost, const EdgeTime& more, double times = 1) {
  cost.per_pack += times * more.per_pack;
  cost.per_token += times * more.per_token;
}

void adapt(LayerCosts& costs, const Adapters& adapters) {
  add(costs.backward, costs.weight_gradient, -1);
  add(costs.forward, adapters.forward());
  add(costs.backward, adapters.input_gradient());
  costs.weight_gradient = adapters.weight_gradient();
  add(costs.backward, costs.weight_gradient);
  costs.weight_reading += adapters.reading();
}

}  // namespace

Costs with_adapters(Costs cost, std::int64_t rank, const HardwareSpec& hardware) {
  require_adaptable(cost.shape, rank);
  HardwareJob job{cost.shape, cost.shape.kinds.front(), cost.dtype, hardware, {.tensor = cost.tp}};
  TrainedPart trained{.kinds = {}, .weight_bytes = job.accumulator()};
  for (std::size_t kind = 0; kind < cost.kinds.size(); ++kind) {
    job.layer = cost.shape.kinds[kind];
    const Adapters adapters(job, rank);
    adapt(cost.kinds[kind], adapters);
    trained.kinds.push_back({adapters.parameters(), adapters.parameters()});
  }
  // Nothing that is trained comes before the first layer, so nobody asks for its input's gradient.
  cost.ends.embedding_backward = {};
  const EdgeTime with = head_time(job, HeadWeights::kTrained);
  const EdgeTime without = head_time(job, HeadWeights::kFrozen);
  cost.ends.head_backward.per_pack -= with.per_pack - without.per_pack;
  cost.ends.head_backward.per_token -= with.per_token - without.per_token;
  // AdamW reads gradient, weight and two moments and writes the last three.
  cost.optimizer_per_parameter = 7 * job.accumulator() * job.nanos_per_memory_byte() / job.tp;
  cost.trained = std::move(trained);
  return cost;
}

}  // namespace slimpack
