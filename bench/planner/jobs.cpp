#include "bench/planner/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "bench/planner/published_cost.h"
#include "bench/planner/workloads.h"
#include "slimpack/cost/memory_model.h"

namespace slimpack::bench {

Bytes activation_memory(const Costs& cost, const StageLayout& layout, std::int32_t replicas) {
  Bytes state;
  for (std::int32_t r = 0; r < layout.ranks(); ++r)
    state = std::max(state, model_state_bytes(cost, layout, r, replicas));
  return (cost.memory - state) * 95 / 100;
}

StepJob llama_job(const LlamaJob& job) {
  constexpr std::int32_t kStages = 8;
  constexpr Tokens kContext{65'536};
  const Costs cost = cost_from_hardware(read_decoder(repository_file("models/llama-2-7b.json")),
                                        Dtype::kBf16, HardwareSpec{}, 1, job.replicas);
  const SequenceLengths lengths = log_normal_lengths(1, job.sequences, kContext);
  StepJob out{cost,
              {.layout = balanced_layout(cost, lengths, kStages),
               .replicas = job.replicas,
               .context = kContext},
              lengths,
              {.most_merged = job.most_merged}};
  if (job.capped) out.job.memory_cap = activation_memory(cost, out.job.layout, job.replicas);
  return out;
}

StepJob setting_a_job(SettingAJob job) {
  StepJob out{published_cost({.forward_overhead_us = job.overheads ? 60.0 : 0.0,
                              .backward_overhead_us = job.overheads ? 120.0 : 0.0}),
              {.layout = equal_stages(kSettingAStages), .context = kSettingAContext},
              std::move(job.lengths)};
  if (job.gigabytes > 0) out.job.memory_cap = Bytes(job.gigabytes * kGigabyte);
  return out;
}

Costs setting_b_cost() {
  return published_cost({.tp = 8,
                         .linear = 600e12,
                         .attention_forward = 341e12,
                         .attention_backward = 250e12,
                         .attention_backward_work = 2.5,
                         .forward_overhead_us = 60,
                         .backward_overhead_us = 120},
                        kSettingBReplicas);
}

StepJob setting_b_job(const DrawnLengths& lengths) {
  StepJob out{setting_b_cost(),
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

Costs h100_cost(std::string_view model) {
  return grid_cost(model, {});
}

StepJob h100_job(const Costs& cost, const DrawnLengths& drawn) {
  const SequenceLengths lengths = log_normal_lengths(drawn.seed, drawn.sequences, drawn.context);
  StepJob out{cost,
              {.layout = balanced_layout(cost, lengths, kH100Stages),
               .replicas = kH100Replicas,
               .context = drawn.context},
              lengths,
              {.most_merged = kH100Replicas,
               .backward = BackwardKind::kSplit,
               .recompute = known_recomputations(cost),
               .mixed_recompute = true}};
  out.job.memory_cap = activation_memory(cost, out.job.layout, kH100Replicas);
  return out;
}

std::string to_string(const Grid& grid) {
  return fmt::format("tp {} × pp {} × dp {}", grid.tp, grid.pp, grid.dp);
}

Costs grid_cost(std::string_view model, const Grid& grid) {
  Costs cost = cost_from_hardware(
      read_decoder(repository_file(fmt::format("models/{}.json", model))), Dtype::kBf16,
      read_hardware(repository_file("hardware/h100.toml")), grid.tp, grid.dp, grid.pp);
  cost.host_per_byte = 0;
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
       .recompute = known_recomputations(cost),
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
