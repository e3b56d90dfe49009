#include "bench/planner/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "bench/planner/lengths.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/stage_table.h"

namespace slimpack::bench {
namespace {

/// Speeds of a layer with h = 4096 on `tp` tensor-parallel ranks. The layer's forward has 24·h²
/// FLOPs per token and 4·h per causal pair. Its time is these FLOPs divided by tp and the speed.
struct PublishedSpeeds {
  std::int32_t tp = 1;
  double linear = 400e12;  ///< FLOP/s
  double attention_forward = 400e12;
  double attention_backward = 400e12;
  double attention_backward_work = 2;  ///< times the forward's; linear work is 2 times it
  double forward_overhead_us = 0;      ///< per layer and MicroPack
  double backward_overhead_us = 0;
};

/// Costs of 32 layers. They know merging of up to `most_merged` replicas, at what it costs on H100
/// nodes in setting B.
Costs published_cost(const PublishedSpeeds& speeds, std::int32_t most_merged = 1) {
  Costs cost;
  cost.origin.source = "published accounting";
  cost.shape = read_decoder(repository_file("models/llama-2-7b.json"));
  cost.dtype = Dtype::kBf16;
  cost.tp = speeds.tp;
  const auto h = static_cast<double>(cost.shape.hidden_size());
  const double tp = speeds.tp;
  const double per_nano = 1e-9;
  cost.row_bytes = 34 * h / tp;
  LayerCosts& layer = cost.kinds.front();
  layer.forward.per_token = 24 * h * h / tp / (speeds.linear * per_nano);
  layer.backward.per_token = 2 * layer.forward.per_token;
  layer.forward.per_pair = 4 * h / tp / (speeds.attention_forward * per_nano);
  layer.backward.per_pair =
      speeds.attention_backward_work * 4 * h / tp / (speeds.attention_backward * per_nano);
  layer.forward.per_pack = 1e3 * speeds.forward_overhead_us;
  layer.backward.per_pack = 1e3 * speeds.backward_overhead_us;
  // The weights' half of the linear work, and the launches of its products.
  layer.weight_gradient = {layer.backward.per_pack / 4, layer.forward.per_token};
  if (most_merged > 1)  // at the runtime's price
    layer.merge = cost_from_hardware(cost.shape, cost.dtype, HardwareSpec{}, speeds.tp, most_merged,
                                     kSettingBStages)
                      .kinds.front()
                      .merge;
  return cost;
}

/// The 32 layers in equal stages.
StageLayout equal_stages(std::int32_t stages) {
  StageLayout layout{{}, StagePlacement::looped(stages, 1)};
  for (std::int32_t s = 0; s <= stages; ++s) layout.layer_begin.push_back(32 / stages * s);
  return layout;
}

}  // namespace

double stage_work(const Costs& cost, const SequenceLengths& lengths, std::int32_t layers) {
  const LayerCosts& layer = cost.kinds.front();
  double work = 0;
  for (const Tokens length : lengths) {
    const auto n = static_cast<double>(length.count());
    work += (layer.forward.per_token + layer.backward.per_token) * n +
            (layer.forward.per_pair + layer.backward.per_pair) * n * (n + 1) / 2;
  }
  return work * layers;
}

Bytes activation_memory(const Costs& cost, const StageLayout& layout, std::int32_t replicas) {
  const StageTable table = stage_table(cost, layout, {}, {replicas, {}});
  Bytes state;
  for (std::int32_t r = 0; r < layout.ranks(); ++r) state = std::max(state, table.state(r).total());
  return (cost.device.memory - state) * 95 / 100;
}

StepJob setting_a_job(SettingAJob job) {
  StepJob out{published_cost({.forward_overhead_us = job.overheads ? 60.0 : 0.0,
                              .backward_overhead_us = job.overheads ? 120.0 : 0.0}),
              {.layout = equal_stages(kSettingAStages), .context = kSettingAContext},
              std::move(job.lengths)};
  if (job.gigabytes > 0) out.job.memory_cap = Bytes(job.gigabytes * kGigabyte);
  return out;
}

StepJob setting_b_job(const DrawnLengths& lengths) {
  StepJob out{published_cost({.tp = 8,
                              .linear = 600e12,
                              .attention_forward = 341e12,
                              .attention_backward = 250e12,
                              .attention_backward_work = 2.5,
                              .forward_overhead_us = 60,
                              .backward_overhead_us = 120},
                             kSettingBReplicas),
              {.layout = equal_stages(kSettingBStages),
               .replicas = kSettingBReplicas,
               .context = lengths.context},
              log_normal_lengths(lengths.seed, lengths.sequences, lengths.context),
              {.most_merged = kSettingBReplicas, .backward = BackwardKind::kSplit}};
  const Tokens longest = *std::ranges::max_element(out.lengths);
  const double rows = 1.5 * static_cast<double>(longest.count()) + 4096;
  const std::int32_t layers = out.job.layout.layers(StageId(0));
  out.job.memory_cap = Bytes(static_cast<std::int64_t>(rows * out.cost.row_bytes * layers));
  return out;
}

std::string to_string(const Grid& grid) {
  return fmt::format("tp {} × pp {} × dp {}", grid.tp, grid.pp, grid.dp);
}

Costs grid_cost(std::string_view model, const Grid& grid) {
  Costs cost = cost_from_hardware(
      read_decoder(repository_file(fmt::format("models/{}.json", model))), Dtype::kBf16,
      read_hardware(repository_file("hardware/h100.toml")), grid.tp, grid.dp, grid.pp);
  cost.host.per_byte = 0;
  return cost;
}

std::optional<StepJob> grid_job(const Costs& cost, const Grid& grid, const SequenceLengths& lengths,
                                Tokens context) {
  if (grid.pp > cost.shape.num_layers()) return std::nullopt;
  StepJob out{
      cost,
      {.layout = balanced_layout(cost, lengths, grid.pp), .replicas = grid.dp, .context = context},
      lengths,
      {.most_merged =
           static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(grid.dp))),
       .backward = BackwardKind::kSplit,
       .recompute = abilities(cost).recomputations,
       .mixed_recompute = true}};
  const Bytes left = activation_memory(cost, out.job.layout, grid.dp);
  if (left <= Bytes(0)) return std::nullopt;
  out.job.memory_cap = left;
  return out;
}

std::filesystem::path repository_file(const std::filesystem::path& path) {
  return std::filesystem::path(SLIMPACK_SOURCE_DIR) / path;
}

}  // namespace slimpack::bench
