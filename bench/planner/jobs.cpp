#include "bench/planner/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/planner/published_cost.h"
#include "bench/planner/workloads.h"
#include "slimpack/cost/memory_model.h"

namespace slimpack::bench {

Bytes activation_memory(const Costs& cost, const StageLayout& layout, std::int32_t replicas) {
  Bytes state;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    state = std::max(state, model_state_bytes(cost, layout, StageId(s), replicas));
  return (cost.memory - state) * 95 / 100;
}

StepJob llama_job(const LlamaJob& job) {
  constexpr std::int32_t kStages = 8;
  constexpr Tokens kContext{65'536};
  const Costs cost = cost_from_hardware(read_model_shape(repository_file("models/llama-2-7b.json")),
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

namespace {

/// Nothing can be offloaded.
Costs bf16_on_h100(std::string_view model, std::int32_t tp, std::int32_t replicas) {
  Costs cost = cost_from_hardware(
      read_model_shape(repository_file(fmt::format("models/{}.json", model))), Dtype::kBf16,
      read_hardware(repository_file("hardware/h100.toml")), tp, replicas);
  cost.host_per_byte = 0;
  return cost;
}

/// Everything that a planner may do.
StepJob free_job(const Costs& cost, SequenceLengths lengths, std::int32_t pp, std::int32_t replicas,
                 Tokens context) {
  StepJob out{
      cost,
      {.layout = balanced_layout(cost, lengths, pp), .replicas = replicas, .context = context},
      std::move(lengths),
      {.most_merged = replicas,
       .backward = BackwardKind::kSplit,
       .recompute = known_recomputations(cost),
       .mixed_recompute = true}};
  out.job.memory_cap = activation_memory(cost, out.job.layout, replicas);
  return out;
}

}  // namespace

Costs h100_cost(std::string_view model) {
  return bf16_on_h100(model, kH100Tensor, kH100Replicas);
}

StepJob h100_job(const Costs& cost, const DrawnLengths& drawn) {
  return free_job(cost, log_normal_lengths(drawn.seed, drawn.sequences, drawn.context), kH100Stages,
                  kH100Replicas, drawn.context);
}

StepJob cluster_job(SequenceLengths lengths, std::int32_t tp, std::int32_t pp) {
  const std::int32_t replicas = kClusterRanks / (tp * pp);
  return free_job(bf16_on_h100("llama-3-8b", tp, replicas), std::move(lengths), pp, replicas,
                  kClusterContext);
}

std::filesystem::path repository_file(const std::filesystem::path& path) {
  return std::filesystem::path(SLIMPACK_SOURCE_DIR) / path;
}

}  // namespace slimpack::bench
