// Task times: the cost model's terms summed up for every MicroPack of a replica.
#include <algorithm>
#include <cmath>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/layer_widths.h"
#include "slimpack/cost/reduction.h"
#include "slimpack/cost/row_moves.h"
#include "slimpack/plan/paired_packs.h"

namespace slimpack {
namespace {

/// 104 days, the limit of every timeline. Times of a step below it can be added up in 64 bits.
constexpr double kLongest = 0x1p53;

/// Longer times, infinity and NaN count as kLongest.
Nanos rounded(double nanos) {
  return Nanos(std::llround(nanos < kLongest ? nanos : kLongest));
}

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
  const double most = std::min(kLongest, 0x1p62 / replicas);
  if (all >= most)
    invalid_input(
        "by the cost model ({}), a replica's actions take {:.3g} s together, below {:.3g} s can be "
        "planned; correct the cost model's times, or the speeds",
        cost.source, all * 1e-9, most * 1e-9);
}

double speed_of(const Replication& replication, std::int32_t rank) {
  return replication.speed.empty() ? 1.0 : replication.speed[static_cast<std::size_t>(rank)];
}

/// Sums over slices. All times are computed from them.
struct SliceSums {
  double slices = 0;
  double tokens = 0;
  double pairs = 0;
  double prefix = 0;
  double window_pairs = 0;
  double window_prefix = 0;

  void add(const Slice& slice, Tokens window) {
    slices += 1;
    tokens += static_cast<double>(slice.length().count());
    pairs += slice.causal_pairs();
    prefix += static_cast<double>(slice.prefix().count());
    if (window == Tokens(0)) return;
    window_pairs += slice.window_pairs(window);
    window_prefix += static_cast<double>(slice.window_prefix(window).count());
  }
};

/// Sums over the slices of one zone.
struct ZoneSums : SliceSums {
  Zone zone;
};

/// Sums over the slices of a pack.
struct PackSums : SliceSums {
  std::int32_t replicas = 1;
  std::vector<ZoneSums> zones;       ///< where slices have zones of their own
  std::vector<double> rows_of = {};  ///< by member of its group, where there are zones
  double rows = 0;                   ///< on the replica that holds most
  RowMoves moves = {};
};

/// The one window that layers have; 0 = none has.
Tokens window_of(const Costs& cost) {
  Tokens window(0);
  for (std::size_t kind = 0; kind <= cost.more_kinds.size(); ++kind)
    window = std::max(window, layer_costs(cost, kind).forward.window);
  return window;
}

/// Adds what a zone's slices have, and the rows of each replica.
void add_zones(PackSums& sum, const MicroPack& pack, Tokens window) {
  sum.rows_of.resize(static_cast<std::size_t>(pack.replicas));
  for (std::size_t s = 0; s < pack.slices.size(); ++s) {
    const Zone zone = pack.zone(s), holders = pack.row_zone(s);
    if (sum.zones.empty() || sum.zones.back().zone != zone) sum.zones.emplace_back().zone = zone;
    sum.zones.back().add(pack.slices[s], window);
    const auto tokens = static_cast<double>(pack.slices[s].length().count());
    for (std::int32_t m = holders.first; m < holders.end(); ++m)
      sum.rows_of[static_cast<std::size_t>(m)] += tokens / holders.size;
  }
  sum.rows = std::ranges::max(sum.rows_of);
}

std::vector<PackSums> sums_of(const std::vector<MicroPack>& packs, Tokens window,
                              const NodePlacement& placement) {
  std::vector<PackSums> sums;
  sums.reserve(packs.size());
  for (const MicroPack& pack : packs) {
    PackSums& sum = sums.emplace_back();
    sum.replicas = pack.replicas;
    for (const Slice& slice : pack.slices) sum.add(slice, window);
    sum.rows = sum.tokens / sum.replicas;
    if (!pack.zones.empty() || !pack.row_zones.empty()) add_zones(sum, pack, window);
    sum.moves = row_moves(pack, placement);
  }
  return sums;
}

/// `start` and what slices add to it.
double time_of_slices(double start, const PackCost& cost, const SliceSums& sum) {
  return start + cost.per_slice * sum.slices + cost.per_token * sum.tokens +
         cost.per_pair * sum.pairs + cost.per_prefix_token * sum.prefix +
         cost.per_window_pair * sum.window_pairs + cost.per_window_prefix * sum.window_prefix +
         cost.travel.time(sum.tokens, sum.prefix, cost.windowed() ? sum.window_pairs : sum.pairs);
}

Nanos time_of(const PackCost& cost, const PackSums& sum) {
  return rounded(time_of_slices(cost.per_pack, cost, sum) + cost.missing_rows(sum.rows));
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

/// Facts about the packs of a run under autograd: which keep a graph, and which feed others.
struct AutogradPacks {
  std::vector<bool> kept_forward, kept_backward;  ///< whether its graph is kept from F to B
  std::vector<bool> feeds;  ///< by forward pack: whether other slices need its keys and values

  explicit AutogradPacks(const PackPlan& packs)
      : kept_forward(packs.forward.size()), feeds(feeds_others(packs)) {
    for (const std::optional<PackId>& forward : forward_pairs(packs)) {
      kept_backward.push_back(forward.has_value());
      if (forward) kept_forward[forward->index()] = true;
    }
  }
};

/// A forward without a graph on the last stage: no further than keys and values that are needed.
PackCost cut_short(const Costs& cost, const StageLayout& layout, PackCost forward) {
  const auto last_layer = static_cast<std::size_t>(layout.layer_begin.back() - 1);
  const PackCost skipped = (-1.0) * layer_costs(cost, cost.shape.kind_of(last_layer)).forward;
  const PackCost rest = forward + skipped;
  return {std::max(0.0, rest.per_pack),          std::max(0.0, rest.per_slice),
          std::max(0.0, rest.per_token),         std::max(0.0, rest.per_pair),
          std::max(0.0, rest.per_prefix_token),  std::max(0.0, rest.per_window_pair),
          std::max(0.0, rest.per_window_prefix), rest.window,
          std::max(0.0, rest.per_missing_row)};
}

/// The times of a stage under autograd.
std::vector<Nanos> autograd_times(const RecomputingCosts& cost, const StageLayout& layout,
                                  StageId stage, Pass pass, const std::vector<PackSums>& packs,
                                  const AutogradPacks& how, double speed) {
  const bool forward = pass == Pass::kForward;
  const bool keeps = keeps_graphs(cost, layout, stage);
  const PackCost kept = stage_cost(cost, layout, stage, pass);
  PackCost again =
      keeps ? stage_cost(with_recompute(static_cast<const Costs&>(cost), Recompute::kFull), layout,
                         stage, pass)
            : kept;
  const bool last = stage.value() == layout.stages() - 1;
  if (forward && last) again = cut_short(cost, layout, again);
  std::vector<Nanos> times;
  for (std::size_t p = 0; p < packs.size(); ++p) {
    const bool with_graph = keeps && (forward ? how.kept_forward : how.kept_backward)[p];
    const bool skipped = forward && last && !with_graph && !how.feeds[p];
    times.push_back(skipped ? Nanos(0) : time_of((with_graph ? kept : again) / speed, packs[p]));
  }
  return times;
}

std::vector<Nanos> stage_times(const RecomputingCosts& cost, const StageLayout& layout,
                               StageId stage, Pass pass, const std::vector<PackSums>& packs,
                               const Replication& replication) {
  const double speed = speed_of(replication, layout.placement.rank_of(stage));
  // Layers run while the next one's weights and the last one's gradients travel.
  const Nanos travelling =
      rounded(shared_state_traffic(cost, layout, stage, replication.replicas, pass));
  std::vector<Nanos> times;
  times.reserve(packs.size());
  const auto cost_of = [&](std::int32_t replicas) {
    return stage_cost(cost, layout, stage, pass, replicas) / speed;
  };
  PackCost own = cost_of(1);
  std::int32_t replicas = 1;
  for (const PackSums& pack : packs) {
    if (!pack.zones.empty()) {
      const double moving = row_move_time(cost, layout, stage, pass, pack.moves) / speed;
      times.push_back(std::max(time_of_zones(cost_of, pack, moving), travelling));
      continue;
    }
    if (pack.replicas != replicas) own = cost_of(replicas = pack.replicas);
    times.push_back(std::max(time_of(own, pack), travelling));
  }
  return times;
}

/// By kind, the layers of a stage.
std::vector<std::int64_t> kinds_of_stage(const Decoder& shape, const StageLayout& layout,
                                         StageId stage) {
  return shape.count_kinds(static_cast<std::size_t>(layout.layer_begin[stage.index()]),
                           static_cast<std::size_t>(layout.layer_begin[stage.index() + 1]));
}

/// The weight-gradient parts of a stage's backward times. Each is capped below its whole, so that
/// input gradients always take time even after rounding or with an invented cost model.
std::vector<Nanos> weight_times(const Costs& cost, const StageLayout& layout, StageId stage,
                                const std::vector<PackSums>& packs,
                                const std::vector<Nanos>& backward, double speed) {
  const auto layers = kinds_of_stage(cost.shape, layout, stage);
  std::vector<Nanos> times;
  times.reserve(packs.size());
  for (std::size_t p = 0; p < packs.size(); ++p) {
    const double tokens = packs[p].rows;
    double all = 0;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      const EdgeTime& layer = layer_costs(cost, kind).weight_gradient;
      all += static_cast<double>(layers[kind]) * (layer.per_pack + layer.per_token * tokens);
    }
    const Nanos time = rounded(all / speed);
    times.push_back(std::max(Nanos(0), std::min(time, backward[p] - Nanos(1))));
  }
  return times;
}

/// The times of pass E, H or G, by pack. The slowest rank of the pipeline sets the pace.
std::vector<Nanos> joint_times(const Costs& cost, const StageLayout& layout, Pass pass,
                               const std::vector<PackSums>& packs, const Replication& replication) {
  const EdgeTime joint = vocabulary_time(cost, layout, pass);
  double slowest = 1;
  if (!replication.speed.empty()) slowest = std::ranges::min(replication.speed);
  std::vector<Nanos> times;
  times.reserve(packs.size());
  for (const PackSums& pack : packs)
    times.push_back(rounded((joint.per_pack + joint.per_token * pack.rows) / slowest));
  return times;
}

std::vector<Nanos> transfer_times(const Costs& cost, const std::vector<PackSums>& packs) {
  const double token_bytes =
      static_cast<double>(cost.shape.hidden_size() * element_bytes(cost.dtype));
  std::vector<Nanos> times;
  times.reserve(packs.size());
  for (const PackSums& pack : packs)
    times.push_back(
        rounded(cost.transfer_latency + cost.transfer_per_byte * token_bytes * pack.rows));
  return times;
}

/// The time of torch's ring over the replicas. In each of replicas − 1 steps, a rank passes one
/// share of `bytes` on.
double ring_time(const Costs& cost, double bytes, std::int32_t replicas) {
  return (replicas - 1) *
         (cost.reduce_latency + cost.reduce_per_byte * bytes / static_cast<double>(replicas));
}

/// Under autograd every replica has all gradients of its stages, and updates all parameters. Tied
/// parameters have a gradient on the first and one on the last stage.
void add_plain_step_end(TaskTimes& times, const Costs& cost, const StageLayout& layout,
                        std::int32_t rank, const Replication& replication) {
  double parameters = 0;
  for (const StageId stage : layout.placement.stages_of(rank))
    parameters += static_cast<double>(stage_parameters(cost.shape, layout, stage));
  const double gradient = cost.autograd->state.gradients;
  const bool edge = rank == 0 || rank == layout.ranks() - 1;
  const double tied = edge && layout.stages() > 1 && cost.shape.edges
                          ? static_cast<double>(cost.shape.edges->shared)
                          : 0;
  const double exchanged =
      tied > 0 ? cost.transfer_latency + cost.transfer_per_byte * gradient * tied : 0;
  // An all-reduce is a ring that sums and a ring that hands out.
  times.reduce.push_back(
      rounded(2 * ring_time(cost, parameters * gradient, replication.replicas) + exchanged));
  times.step_end.push_back(
      rounded(cost.optimizer_per_parameter * parameters / speed_of(replication, rank)));
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

void add_step_end(TaskTimes& times, const Costs& cost, const StageLayout& layout,
                  const PackPlan& packs, const Replication& replication) {
  for (std::int32_t r = 0; r < layout.ranks(); ++r) {
    const StageId first = layout.placement.stage(r, 0);
    if (cost.autograd) {
      add_plain_step_end(times, cost, layout, r, replication);
      continue;
    }
    const std::int32_t replicas = replication.replicas;
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
      const auto parameters = static_cast<double>(stage_parameters(cost.shape, layout, stage));
      end += cost.optimizer_per_parameter * parameters / replicas / speed_of(replication, r) +
             parameter_gathering(cost, layout, stage, replicas);
    }
    times.step_end.push_back(rounded(end));
  }
}

}  // namespace

std::int64_t stage_parameters(const Decoder& shape, const StageLayout& layout, StageId stage) {
  const bool first = stage.value() == 0;
  const bool last = stage.value() == layout.stages() - 1;
  const bool head_is_embedding = first && shape.tie_embeddings;
  const auto layers = kinds_of_stage(shape, layout, stage);
  std::int64_t count = 0;
  for (std::size_t kind = 0; kind < layers.size(); ++kind)
    count += layers[kind] * shape.kinds[kind].parameters();
  if (shape.edges) {
    const CountedEdges& edges = *shape.edges;
    return count + (first ? edges.before : 0) + (last ? edges.after : 0) -
           (first && last ? edges.shared : 0);
  }
  if (last) count += shape.hidden_size();
  if (layout.spread_vocabulary) {
    const std::int64_t share = share_of(shape.embedding_parameters(), layout.ranks());
    if (stage.value() < layout.ranks()) count += share;
    if (stage.value() >= layout.stages() - layout.ranks() && !shape.tie_embeddings) count += share;
    return count;
  }
  if (first) count += shape.embedding_parameters();
  if (last && !head_is_embedding) count += shape.embedding_parameters();
  return count;
}

EdgeTime stage_weight_gradient(const Costs& cost, const StageLayout& layout, StageId stage) {
  const auto layers = kinds_of_stage(cost.shape, layout, stage);
  EdgeTime time;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    const EdgeTime& layer = layer_costs(cost, kind).weight_gradient;
    time.per_pack += static_cast<double>(layers[kind]) * layer.per_pack;
    time.per_token += static_cast<double>(layers[kind]) * layer.per_token;
  }
  return time;
}

TaskTimes task_times(const RecomputingCosts& cost, const StageLayout& layout, const PackPlan& packs,
                     const Replication& replication) {
  SLIMPACK_CHECK(replication.speed.empty() ||
                 replication.speed.size() == static_cast<std::size_t>(layout.ranks()));
  const NodePlacement placement{cost.ranks_per_node, cost.tp, layout.ranks(), replication.replicas};
  const std::vector<PackSums> forward = sums_of(packs.forward, window_of(cost), placement);
  const std::vector<PackSums> backward = sums_of(packs.backward, window_of(cost), placement);
  TaskTimes times;
  const std::optional<AutogradPacks> autograd =
      cost.autograd ? std::optional<AutogradPacks>(packs) : std::nullopt;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const double speed = speed_of(replication, layout.placement.rank_of(StageId(s)));
    if (autograd) {
      times.forward.push_back(
          autograd_times(cost, layout, StageId(s), Pass::kForward, forward, *autograd, speed));
      times.backward.push_back(
          autograd_times(cost, layout, StageId(s), Pass::kBackward, backward, *autograd, speed));
      continue;
    }
    times.forward.push_back(
        stage_times(cost, layout, StageId(s), Pass::kForward, forward, replication));
    times.backward.push_back(
        stage_times(cost, layout, StageId(s), Pass::kBackward, backward, replication));
    if (cost.weight_gradient != EdgeTime()) {
      times.weight_gradient.push_back(
          weight_times(cost, layout, StageId(s), backward, times.backward.back(), speed));
      times.input_gradient.push_back(times.backward.back());
      for (std::size_t b = 0; b < backward.size(); ++b)
        times.input_gradient.back()[b] -= times.weight_gradient.back()[b];
    }
  }
  if (layout.spread_vocabulary)
    for (const Pass pass : kJointPasses)
      times.joint[joint_index(pass)] = joint_times(
          cost, layout, pass, runs_forward_packs(pass) ? forward : backward, replication);
  times.forward_transfer = transfer_times(cost, forward);
  times.backward_transfer = transfer_times(cost, backward);
  add_step_end(times, cost, layout, packs, replication);
  require_countable(times, cost, replication.replicas);
  return times;
}

}  // namespace slimpack
