#include "bench/planner/published_cost.h"

#include "bench/planner/jobs.h"
#include "slimpack/spec/decoder.h"

namespace slimpack::bench {

Costs published_cost(const PublishedSpeeds& speeds, std::int32_t most_merged) {
  Costs cost;
  cost.source = "published accounting";
  cost.shape = read_decoder(repository_file("models/llama-2-7b.json"));
  cost.dtype = Dtype::kBf16;
  cost.tp = speeds.tp;
  const auto h = static_cast<double>(cost.shape.hidden_size());
  const double tp = speeds.tp;
  const double per_nano = 1e-9;
  cost.row_bytes = 34 * h / tp;
  cost.forward.per_token = 24 * h * h / tp / (speeds.linear * per_nano);
  cost.backward.per_token = 2 * cost.forward.per_token;
  cost.forward.per_pair = 4 * h / tp / (speeds.attention_forward * per_nano);
  cost.backward.per_pair =
      speeds.attention_backward_work * 4 * h / tp / (speeds.attention_backward * per_nano);
  cost.forward.per_pack = 1e3 * speeds.forward_overhead_us;
  cost.backward.per_pack = 1e3 * speeds.backward_overhead_us;
  // The weights' half of the linear work, and the launches of its products.
  cost.weight_gradient = {cost.backward.per_pack / 4, cost.forward.per_token};
  if (most_merged > 1)  // at the runtime's price
    cost.merge = cost_from_hardware(cost.shape, cost.dtype, HardwareSpec{}, speeds.tp, most_merged,
                                    kSettingBStages)
                     .merge;
  return cost;
}

StageLayout equal_stages(std::int32_t pp, std::int32_t stages_per_rank) {
  StageLayout layout{{}, StagePlacement::looped(pp, stages_per_rank)};
  const std::int32_t stages = pp * stages_per_rank;
  for (std::int32_t s = 0; s <= stages; ++s) layout.layer_begin.push_back(32 / stages * s);
  return layout;
}

double stage_work(const Costs& cost, const SequenceLengths& lengths, std::int32_t layers) {
  double work = 0;
  for (const Tokens length : lengths) {
    const auto n = static_cast<double>(length.count());
    work += (cost.forward.per_token + cost.backward.per_token) * n +
            (cost.forward.per_pair + cost.backward.per_pair) * n * (n + 1) / 2;
  }
  return work * layers;
}

}  // namespace slimpack::bench
