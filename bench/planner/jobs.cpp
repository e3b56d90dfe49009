#include "bench/planner/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/planner/published_cost.h"
#include "bench/planner/workloads.h"
#include "slimpack/cost/memory_model.h"

namespace slimpack::bench {

Bytes activation_memory(const CostModel& cost, const StageLayout& layout, std::int32_t replicas) {
  Bytes state;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    state = std::max(state, model_state_bytes(cost, layout, StageId(s), replicas));
  return (cost.memory - state) * 95 / 100;
}

Job llama_job(const LlamaJob& job) {
  constexpr std::int32_t kStages = 8;
  constexpr Tokens kContext{65'536};
  Job out{cost_from_hardware(read_model_shape(repository_file("models/llama-2-7b.json")),
                             Dtype::kBf16, HardwareSpec{}, 1, job.replicas),
          {.lengths = log_normal_lengths(1, job.sequences, kContext),
           .pp = kStages,
           .dp = job.replicas,
           .context = kContext,
           .most_merged = job.most_merged}};
  out.request.layout = balanced_layout(out.cost, out.request.lengths, kStages);
  if (job.capped)
    out.request.memory_cap = activation_memory(out.cost, *out.request.layout, job.replicas);
  return out;
}

Job setting_a_job(SettingAJob job) {
  Job out{published_cost({.forward_overhead_us = job.overheads ? 60.0 : 0.0,
                          .backward_overhead_us = job.overheads ? 120.0 : 0.0}),
          {.lengths = std::move(job.lengths), .pp = kSettingAStages, .context = kSettingAContext}};
  if (job.gigabytes > 0) out.request.memory_cap = Bytes(job.gigabytes * kGigabyte);
  out.request.layout = equal_stages(kSettingAStages);
  return out;
}

CostModel setting_b_cost() {
  return published_cost({.tp = 8,
                         .linear = 600e12,
                         .attention_forward = 341e12,
                         .attention_backward = 250e12,
                         .attention_backward_work = 2.5,
                         .forward_overhead_us = 60,
                         .backward_overhead_us = 120},
                        kSettingBReplicas);
}

Job setting_b_job(const DrawnLengths& lengths) {
  Job out{setting_b_cost(),
          {.lengths = log_normal_lengths(lengths.seed, lengths.sequences, lengths.context),
           .pp = kSettingBStages,
           .dp = kSettingBReplicas,
           .context = lengths.context,
           .most_merged = kSettingBReplicas,
           .backward = BackwardKind::kSplit}};
  out.request.layout = equal_stages(kSettingBStages);
  const Tokens longest = *std::ranges::max_element(out.request.lengths);
  const double rows = 1.5 * static_cast<double>(longest.count()) + 4096;
  const std::int32_t layers = out.request.layout->layers(StageId(0));
  out.request.memory_cap = Bytes(static_cast<std::int64_t>(rows * out.cost.row_bytes * layers));
  return out;
}

CostModel h100_cost(std::string_view model) {
  CostModel cost = cost_from_hardware(
      read_model_shape(repository_file(fmt::format("models/{}.json", model))), Dtype::kBf16,
      read_hardware(repository_file("hardware/h100.toml")), kH100Tensor, kH100Replicas);
  cost.host_per_byte = 0;
  return cost;
}

Job h100_job(const CostModel& cost, const DrawnLengths& lengths) {
  Job out{cost,
          {.lengths = log_normal_lengths(lengths.seed, lengths.sequences, lengths.context),
           .pp = kH100Stages,
           .dp = kH100Replicas,
           .context = lengths.context,
           .most_merged = kH100Replicas,
           .backward = BackwardKind::kSplit,
           .recompute = known_recomputations(cost),
           .mixed_recompute = true}};
  out.request.layout = balanced_layout(cost, out.request.lengths, kH100Stages);
  out.request.memory_cap = activation_memory(cost, *out.request.layout, kH100Replicas);
  return out;
}

std::filesystem::path repository_file(const std::filesystem::path& path) {
  return std::filesystem::path(SLIMPACK_SOURCE_DIR) / path;
}

}  // namespace slimpack::bench
