// Task times: the cost model's terms summed up for every MicroPack of a replica.
#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/cost/recomputed_cost.h"
#include "slimpack/cost/reduction.h"

namespace slimpack {
namespace {

double sum_of(const std::vector<Nanos>& times) {
  double sum = 0;
  for (const Nanos time : times) sum += static_cast<double>(time.count());
  return sum;
}

double sum_of(const std::vector<std::vector<Nanos>>& times_of_stages) {
  double sum = 0;
  for (const std::vector<Nanos>& times : times_of_stages) sum += sum_of(times);
  return sum;
}

/// Throws unless the times of `replicas` replicas like this one can be added up.
void require_countable(const TaskTimes& times, const Costs& cost, std::int32_t replicas) {
  const double transfers = sum_of(times.forward_transfer) + sum_of(times.backward_transfer);
  double joint = 0;
  for (const std::vector<Nanos>& pass : times.joint)
    joint += static_cast<double>(times.ranks()) * sum_of(pass);
  const double all = sum_of(times.forward) + sum_of(times.backward) + sum_of(times.reduce) +
                     sum_of(times.reduce_after_weights) + sum_of(times.step_end) +
                     times.stages() * transfers + joint;
  const double most = std::min(kLongestTime, 0x1p62 / replicas);
  if (all >= most)
    invalid_input(
        "by the cost model ({}), a replica's actions take {:.3g} s together, below {:.3g} s can be "
        "planned; correct the cost model's times, or the speeds",
        cost.origin.source, all * 1e-9, most * 1e-9);
}

/// The one window that layers have; 0 = none has.
Tokens window_of(const Costs& cost) {
  Tokens window(0);
  for (const LayerCosts& kind : cost.kinds) window = std::max(window, kind.forward.window);
  return window;
}

/// The time of the replica that takes longest: all of the group wait for it. A zone of several
/// replicas takes what merging adds to a pack of its slices. cost_of: by the size of a zone.
/// `moving`: of rows, in all layers.
template <class CostOf>
Nanos time_of_zones(const CostOf& cost_of, const PackSums& sum, double moving) {
  const PackCost alone = cost_of(1);
  std::vector<double> times(sum.rows_of.size());
  for (std::size_t m = 0; m < times.size(); ++m)
    times[m] =
        alone.per_pack + alone.missing_rows(sum.rows) + moving + alone.per_token * sum.rows_of[m];
  for (const ZoneSums& zone : sum.zones) {
    PackCost cost = cost_of(zone.zone.size);
    cost.per_token -= alone.per_token / zone.zone.size;  // counted with the rows
    const double time = time_of_slices(cost.per_pack - alone.per_pack, cost, zone);
    for (std::int32_t m = zone.zone.first; m < zone.zone.end(); ++m)
      times[static_cast<std::size_t>(m)] += time;
  }
  return rounded(std::ranges::max(times));
}

/// Nanoseconds of the moves in all layers of a stage in one pass. Forward moves queries, keys and
/// values there and outputs back; backward moves outputs back again and their gradients there, and
/// gradients of queries, keys and values back.
double row_move_time(const Costs& cost, const StageLayout& layout, StageId stage, Pass pass,
                     const RowMoves& moves) {
  if (moves == RowMoves()) return 0;
  const bool backward = pass == Pass::kBackward;
  const double of_byte =
      moves.inside * cost.row_moves.inside + moves.outside * cost.row_moves.outside;
  double time = 0;
  for (std::int32_t l = layout.layer_begin[stage.index()];
       l < layout.layer_begin[stage.index() + 1]; ++l) {
    const LayerWidths widths(cost.shape, cost.shape.kind_of(static_cast<std::size_t>(l)),
                             cost.dtype, cost.tp);
    const auto q = static_cast<double>(widths.q), qkv = q + 2 * static_cast<double>(widths.k);
    time += (backward ? 3 : 2) * cost.row_moves.latency + of_byte * (qkv + (backward ? 2 : 1) * q);
  }
  return time;
}

/// The least that a pass takes: layers run while the next one's weights and the last one's
/// gradients travel.
Nanos travelling_time(const BoundStages& bound, StageId stage, Pass pass) {
  return rounded(
      shared_state_traffic(bound.cost, bound.layout, stage, bound.replication.replicas, pass));
}

std::vector<Nanos> stage_times(const BoundStages& bound, StageId stage, Pass pass,
                               const std::vector<PackSums>& packs, double speed) {
  const Nanos travelling = travelling_time(bound, stage, pass);
  std::vector<Nanos> times;
  times.reserve(packs.size());
  const auto cost_of = [&](std::int32_t replicas) {
    return stage_cost(bound, stage, pass, replicas) / speed;
  };
  PackCost own = cost_of(1);
  std::int32_t replicas = 1;
  for (const PackSums& pack : packs) {
    if (!pack.zones.empty()) {
      const double moving =
          row_move_time(bound.cost, bound.layout, stage, pass, pack.moves) / speed;
      times.push_back(std::max(time_of_zones(cost_of, pack, moving), travelling));
      continue;
    }
    if (pack.replicas != replicas) own = cost_of(replicas = pack.replicas);
    times.push_back(std::max(time_of(own, pack), travelling));
  }
  return times;
}

/// StageTable::weight_gradient.
EdgeTime stage_weight_gradient(const BoundStages& bound, StageId stage) {
  EdgeTime time;
  for (std::size_t kind = 0; kind < bound.cost.kinds.size(); ++kind) {
    const auto layers = bound.layers_by_recompute(stage, kind);
    for (const Recompute recompute : all_recomputations()) {
      const auto count = static_cast<double>(layers[static_cast<std::size_t>(recompute)]);
      if (count == 0) continue;
      const EdgeTime layer = weight_gradient_time(bound.cost, recompute, kind);
      time.per_pack += count * layer.per_pack;
      time.per_token += count * layer.per_token;
    }
  }
  return time;
}

/// The weight-gradient parts of a stage's backward times. They leave input gradients the time of
/// what travels, and some time at all, even after rounding or with an invented cost model.
std::vector<Nanos> weight_times(const BoundStages& bound, StageId stage,
                                const std::vector<PackSums>& packs,
                                const std::vector<Nanos>& backward, double speed) {
  const EdgeTime weights = stage_weight_gradient(bound, stage);
  const Nanos left = std::max(Nanos(1), travelling_time(bound, stage, Pass::kBackward));
  std::vector<Nanos> times;
  times.reserve(packs.size());
  for (std::size_t p = 0; p < packs.size(); ++p) {
    const Nanos time = rounded((weights.per_pack + weights.per_token * packs[p].rows) / speed);
    times.push_back(std::max(Nanos(0), std::min(time, backward[p] - left)));
  }
  return times;
}

/// The times of pass E, H or G, by pack. The slowest rank of the pipeline sets the pace.
std::vector<Nanos> joint_times(const BoundStages& bound, Pass pass,
                               const std::vector<PackSums>& packs, double slowest) {
  const EdgeTime joint = vocabulary_time(bound, pass);
  std::vector<Nanos> times;
  times.reserve(packs.size());
  for (const PackSums& pack : packs)
    times.push_back(rounded((joint.per_pack + joint.per_token * pack.rows) / slowest));
  return times;
}

/// Nanoseconds of the last pack; 0 without packs.
double last_of(const std::vector<Nanos>& times) {
  return times.empty() ? 0 : static_cast<double>(times.back().count());
}

/// The reductions of the rank's stages after its first. Even these wait until the rank has sent all
/// its messages: a device that synchronises waits for other replicas from then on.
double other_reductions(const Costs& cost, const StageLayout& layout, std::int32_t rank,
                        std::int32_t replicas) {
  double all = 0;
  for (const StageId stage : layout.placement.stages_of(rank))
    if (layout.placement.local_stage(stage) > 0)
      all += reduction_after(cost, layout, stage, replicas, 0);
  return all;
}

/// Whether the first stage's last backward sends nothing: not what the embedding takes where the
/// vocabulary is spread, nor keys, queries or rows to the other replicas of its group. These may
/// have another MicroPack before they reduce, so none begins until it has sent everything.
bool sends_nothing_last(const StageLayout& layout, const PackPlan& packs) {
  return !layout.spread_vocabulary && !packs.backward.empty() &&
         packs.backward.back().replicas == 1;
}

}  // namespace

double PackFlowStages::least_reduction(double longest_last_action) const {
  return reduction_after(cost, layout, StageId(std::int32_t{0}), replication.replicas,
                         longest_last_action);
}

void PackFlowStages::add_step_end(TaskTimes& times, const PackPlan& packs,
                                  ReplicaId replica) const {
  const std::int32_t replicas = replication.replicas;
  for (std::int32_t r = 0; r < layout.ranks(); ++r) {
    const StageId first = layout.placement.stage(r, 0);
    const double speed = replication.speed_of(replica, r);
    const double others = other_reductions(cost, layout, r, replicas);
    const auto left_after = [&](const std::vector<Nanos>& actions) {
      return rounded(reduction_after(cost, layout, first, replicas, last_of(actions), others));
    };
    // Later stages send what their last backward gives before they reduce.
    const bool hides = r == 0 && sends_nothing_last(layout, packs);
    times.reduce.push_back(left_after(hides ? times.backward.front() : std::vector<Nanos>()));
    if (!times.weight_gradient.empty())
      times.reduce_after_weights.push_back(left_after(times.weight_gradient[first.index()]));
    double end = 0;
    for (const StageId stage : layout.placement.stages_of(r)) {
      const auto parameters = static_cast<double>(stage_parameters(cost, layout, stage).trained);
      end += cost.optimizer_per_parameter * parameters / replicas / speed +
             parameter_gathering(cost, layout, stage, replicas);
    }
    times.step_end.push_back(rounded(end));
  }
}

void PackFlowStages::add_passes(TaskTimes& times, const SummedPacks& packs,
                                ReplicaId replica) const {
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const StageId stage(s);
    const double speed = replication.speed_of(replica, layout.placement.rank_of(stage));
    times.forward.push_back(stage_times(*this, stage, Pass::kForward, packs.forward, speed));
    times.backward.push_back(stage_times(*this, stage, Pass::kBackward, packs.backward, speed));
    if (!splits_backward()) continue;
    const std::vector<Nanos>& whole = times.backward.back();
    times.weight_gradient.push_back(weight_times(*this, stage, packs.backward, whole, speed));
    times.input_gradient.push_back(whole);
    for (std::size_t b = 0; b < whole.size(); ++b)
      times.input_gradient.back()[b] -= times.weight_gradient.back()[b];
  }
}

EdgeTime StageTable::weight_gradient(StageId stage) const {
  return stage_weight_gradient(*bound_, stage);
}

TaskTimes StageTable::times(const PackPlan& packs, ReplicaId replica) const {
  const Tokens window = window_of(bound_->cost);
  const SummedPacks summed{packs, sums_of(packs.forward, window, placement()),
                           sums_of(packs.backward, window, placement())};
  TaskTimes times;
  bound_->add_passes(times, summed, replica);
  if (layout().spread_vocabulary) {
    double slowest = std::numeric_limits<double>::infinity();
    for (std::int32_t r = 0; r < layout().ranks(); ++r)
      slowest = std::min(slowest, replication().speed_of(replica, r));
    for (const Pass pass : kJointPasses)
      times.joint[joint_index(pass)] = joint_times(
          *bound_, pass, runs_forward_packs(pass) ? summed.forward : summed.backward, slowest);
  }
  for (const PackSums& pack : summed.forward)
    times.forward_transfer.push_back(rounded(transfer(pack.rows)));
  for (const PackSums& pack : summed.backward)
    times.backward_transfer.push_back(rounded(transfer(pack.rows)));
  bound_->add_step_end(times, packs, replica);
  require_countable(times, bound_->cost, replication().replicas);
  return times;
}

}  // namespace slimpack
