#include "slimpack/planner/replay.h"

#include <algorithm>
#include <array>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/median.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack {
namespace {

/// The median duration, in ns, of everything that the ranks do.
class TypicalTimes {
 public:
  explicit TypicalTimes(std::span<const Timeline> measured) : tensor_(measured.front().tensor) {
    for (const Timeline& timeline : measured)
      for (const auto& [work, duration] : busy_durations(timeline)) all_[work].push_back(duration);
  }

  /// Puts it in place of `predicted`, which stays where the ranks did not do that. `rank` counts
  /// ranks of replicas.
  void replace(Nanos& predicted, std::size_t rank, SpanKind kind, StageId stage,
               PackId pack = PackId(-1)) const {
    double slowest = -1;
    for (std::int32_t t = 0; t < tensor_; ++t) {
      const auto found =
          all_.find({static_cast<std::int32_t>(rank) * tensor_ + t, kind, stage, pack});
      if (found != all_.end()) slowest = std::max(slowest, median(found->second));
    }
    if (slowest >= 0) predicted = Nanos(static_cast<std::int64_t>(slowest));
  }

 private:
  std::int32_t tensor_;
  std::map<Work, std::vector<double>> all_;
};

/// Actions that all ranks run together take as long as on the slowest rank.
void replace_joint(TaskTimes& times, const TypicalTimes& typical, const StagePlacement& placement,
                   std::size_t first_rank) {
  constexpr std::array kKinds{SpanKind::kEmbedding, SpanKind::kHead, SpanKind::kEmbeddingGradient};
  for (std::size_t j = 0; j < kKinds.size(); ++j)
    for (std::size_t p = 0; p < times.joint[j].size(); ++p) {
      Nanos slowest;
      for (std::size_t r = 0; r < times.ranks(); ++r) {
        Nanos own = times.joint[j][p];
        typical.replace(own, first_rank + r, kKinds[j],
                        placement.stage(static_cast<std::int32_t>(r), 0), PackId(p));
        slowest = std::max(slowest, own);
      }
      times.joint[j][p] = slowest;
    }
}

void replace(TaskTimes& times, const TypicalTimes& typical, const StagePlacement& placement,
             std::size_t first_rank) {
  const auto each = [&](std::vector<std::vector<Nanos>>& pass, SpanKind kind) {
    for (std::size_t s = 0; s < pass.size(); ++s) {
      const StageId stage(s);
      const std::size_t rank = first_rank + static_cast<std::size_t>(placement.rank_of(stage));
      for (std::size_t p = 0; p < pass[s].size(); ++p)
        typical.replace(pass[s][p], rank, kind, stage, PackId(p));
    }
  };
  each(times.forward, SpanKind::kForward);
  each(times.backward, SpanKind::kBackward);
  each(times.input_gradient, SpanKind::kInputGradient);
  each(times.weight_gradient, SpanKind::kWeightGradient);
  replace_joint(times, typical, placement, first_rank);
  for (std::size_t r = 0; r < times.ranks(); ++r) {
    const StageId first = placement.stage(static_cast<std::int32_t>(r), 0);
    typical.replace(times.reduce[r], first_rank + r, SpanKind::kReduce, first);
    if (!times.reduce_after_weights.empty())
      typical.replace(times.reduce_after_weights[r], first_rank + r, SpanKind::kReduce, first);
    typical.replace(times.step_end[r], first_rank + r, SpanKind::kOptimizer, first);
  }
}

/// Replicas reduce together. The last replica to begin has the least left to do, because its first
/// buckets are reduced by then. So all replicas take the least time.
void reduce_together(std::vector<ReplicaPacks>& replicas) {
  const auto least = [&](std::vector<Nanos> TaskTimes::*reduce) {
    const std::vector<Nanos>& first = replicas.front().times.*reduce;
    for (std::size_t rank = 0; rank < first.size(); ++rank) {
      Nanos time = first[rank];
      for (const ReplicaPacks& r : replicas) time = std::min(time, (r.times.*reduce)[rank]);
      for (ReplicaPacks& r : replicas) (r.times.*reduce)[rank] = time;
    }
  };
  least(&TaskTimes::reduce);
  least(&TaskTimes::reduce_after_weights);
}

}  // namespace

std::map<Work, double> busy_durations(const Timeline& timeline) {
  std::map<Work, double> lasted;
  for (const Span& span : timeline.spans)
    if (is_busy(span.kind))
      lasted[{span.rank, span.kind, span.stage, span.pack}] +=
          static_cast<double>((span.end - span.start).count());
  return lasted;
}

SimulationResult replay(const RatedPlan& step, const Costs& cost,
                        std::span<const Timeline> measured) {
  SLIMPACK_CHECK(!measured.empty());
  const TypicalTimes typical(measured);
  std::vector<ReplicaPacks> replicas = costed_replicas(step, cost);
  for (std::size_t r = 0; r < replicas.size(); ++r)
    replace(replicas[r].times, typical, step.plan.layout.placement, r * replicas[r].times.ranks());
  reduce_together(replicas);
  return simulate(replicas, step.schedules);
}

}  // namespace slimpack
