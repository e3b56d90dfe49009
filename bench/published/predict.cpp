#include "bench/published/predict.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/published/accounting.h"
#include "bench/published/costs.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"

namespace slimpack::bench {
namespace {

/// Plain data parallelism: a ring all-reduce of gradients in the weights' format, then the whole
/// optimizer on every replica.
void set_plain_step_end(const PublishedJob& job, const Costs& cost, TaskTimes& times) {
  const double others = static_cast<double>(job.dp - 1) / job.dp;
  const double per_byte = kNanosPerSecond / job.hardware.memory_bandwidth;
  for (std::int32_t rank = 0; rank < job.layout.ranks(); ++rank) {
    double parameters = 0;
    for (const StageId stage : job.layout.placement.stages_of(rank))
      parameters += static_cast<double>(stage_parameters(job.shape, job.layout, stage)) / job.tp;
    const double bytes = parameters * static_cast<double>(element_bytes(cost.dtype));
    const double reduce =
        job.dp == 1 ? 0 : 2 * (cost.reduction.latency + others * bytes * cost.reduction.per_byte);
    const auto r = static_cast<std::size_t>(rank);
    times.reduce[r] = Nanos(std::llround(reduce));
    if (!times.reduce_after_weights.empty()) times.reduce_after_weights[r] = times.reduce[r];
    if (job.runtime.optimizer_bytes > 0)
      times.step_end[r] = Nanos(std::llround(job.runtime.optimizer_bytes * parameters * per_byte));
  }
}

/// The simulated peaks have rows alone (Costs::row_bytes).
double largest_memory(const PublishedJob& job, const std::vector<Bytes>& peaks) {
  double most = 0;
  for (std::int32_t rank = 0; rank < job.layout.ranks(); ++rank)
    most = std::max(most, state_bytes(job, rank) + working_bytes(job, rank) +
                              static_cast<double>(peaks[static_cast<std::size_t>(rank)].count()));
  return most;
}

}  // namespace

Prediction predict(const PublishedJob& job) {
  const Costs cost = published_costs(job);
  const bool plain = job.shared == Shared::kNothing;
  const StageTable table = stage_table(cost, job.layout, {}, {.replicas = plain ? 1 : job.dp});
  ReplicaPacks replica{job.packs, table.times(job.packs), table.bytes(job.packs, job.lengths)};
  if (plain) set_plain_step_end(job, cost, replica.times);
  const std::int32_t per_rank = job.layout.placement.stages_per_rank();
  const Schedule schedule = per_rank == 1
                                ? one_f_one_b(job.packs, job.layout.ranks())
                                : sliced_one_f_one_b(job.packs, job.layout.ranks(), 2, per_rank);
  const SimulationResult result = simulate({&replica, 1}, {&schedule, 1}, {.timeline = false});
  return {to_seconds(result.makespan), largest_memory(job, result.peak_activation)};
}

}  // namespace slimpack::bench
