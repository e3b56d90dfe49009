// Jobs whose costs come from hardware figures: what several parts plan.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slimpack/planner/planner.h"

namespace slimpack::bench {

struct Job {
  CostModel cost;
  PlanRequest request;
};

/// What a rank of the fullest stage has left for activations: its memory less model_state_bytes,
/// less 5% of the rest for fragments and buffers.
[[nodiscard]] Bytes activation_memory(const CostModel& cost, const StageLayout& layout,
                                      std::int32_t replicas);

/// Llama-2 7B in bf16 with the default hardware figures, tp 1, 8 stages, log-normal lengths of seed
/// 1 truncated at 65,536, without recomputation.
struct LlamaJob {
  std::size_t sequences = 512;
  std::int32_t replicas = 8;
  std::int32_t most_merged = 1;
  bool capped = false;  ///< at activation_memory
};
[[nodiscard]] Job llama_job(const LlamaJob& job);

}  // namespace slimpack::bench
