#include "bench/planner/jobs.h"

#include <algorithm>

#include "bench/planner/parts.h"
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

}  // namespace slimpack::bench
