// Autograd stages: times and memory of a run whose layers are a model's own (AutogradCosts has its
// rules).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/plan/regroup.h"

namespace slimpack {
namespace {

/// The sum of a form over a MicroPack's slices.
double sum_over(const PackCost& form, const MicroPack& pack) {
  double sum = form.per_pack;
  for (const Slice& slice : pack.slices) sum += form(slice);
  return sum;
}

/// By sequence, where its slices with a prefix begin in the packs; ascending, each once.
using Begins = std::vector<std::vector<Tokens>>;

void add_begins(Begins& begins, const std::vector<MicroPack>& packs) {
  for (const MicroPack& pack : packs)
    for (const Slice& slice : pack.slices) {
      if (slice.begin == Tokens(0)) continue;
      if (begins.size() <= slice.sequence.index()) begins.resize(slice.sequence.index() + 1);
      begins[slice.sequence.index()].push_back(slice.begin);
    }
  for (std::vector<Tokens>& of : begins) {
    std::sort(of.begin(), of.end());
    of.erase(std::unique(of.begin(), of.end()), of.end());
  }
}

/// For each forward MicroPack, whether it has a slice with tokens in the prefix of another slice of
/// either pass.
std::vector<bool> feeds_others(const PackPlan& packs) {
  Begins begins;
  add_begins(begins, packs.forward);
  add_begins(begins, packs.backward);
  std::vector<bool> feeds;
  for (const MicroPack& pack : packs.forward)
    feeds.push_back(std::ranges::any_of(pack.slices, [&](const Slice& slice) {
      const std::size_t q = slice.sequence.index();
      return q < begins.size() && !begins[q].empty() && begins[q].back() > slice.begin;
    }));
  return feeds;
}

/// The packs that have a pair: their graphs are kept from F to B on stages that keep graphs.
struct PairedPacks {
  std::vector<bool> forward, backward;

  explicit PairedPacks(const PackPlan& packs) : forward(packs.forward.size()) {
    for (const std::optional<PackId>& pair : forward_pairs(packs)) {
      backward.push_back(pair.has_value());
      if (pair) forward[pair->index()] = true;
    }
  }
  [[nodiscard]] const std::vector<bool>& of(Pass pass) const {
    return pass == Pass::kForward ? forward : backward;
  }
};

/// A forward without a graph on the last stage: no further than keys and values that are needed.
PackCost cut_short(const Costs& cost, const StageLayout& layout, PackCost forward) {
  const auto last_layer = static_cast<std::size_t>(layout.layer_begin.back() - 1);
  const PackCost skipped = (-1.0) * cost.kinds[cost.shape.kind_of(last_layer)].forward;
  const PackCost rest = forward + skipped;
  return {std::max(0.0, rest.per_pack),          std::max(0.0, rest.per_slice),
          std::max(0.0, rest.per_token),         std::max(0.0, rest.per_pair),
          std::max(0.0, rest.per_prefix_token),  std::max(0.0, rest.per_window_pair),
          std::max(0.0, rest.per_window_prefix), rest.window,
          std::max(0.0, rest.per_missing_row)};
}

/// The time of torch's ring over the replicas. In each of replicas − 1 steps, a rank passes one
/// share of `bytes` on.
double ring_time(const Costs& cost, double bytes, std::int32_t replicas) {
  return (replicas - 1) *
         (cost.reduction.latency + cost.reduction.per_byte * bytes / static_cast<double>(replicas));
}

void require_countable(double bytes) {
  if (!(bytes < 0x1p62))
    invalid_input(
        "activations of {:.3g} bytes cannot be counted in 64 bits; give fewer tokens or correct "
        "the cost model",
        bytes);
}

Bytes whole(double bytes) {
  require_countable(bytes);
  return Bytes(static_cast<std::int64_t>(std::ceil(bytes)));
}

/// Throws unless all bytes of a stage can be added up.
void require_countable(const TaskBytes& bytes) {
  for (std::size_t s = 0; s < bytes.rows.size(); ++s) {
    double sum = 0;
    for (const auto* of :
         {&bytes.rows[s], &bytes.kv[s], &bytes.dkv[s], &bytes.forward_transient[s],
          &bytes.backward_transient[s], &bytes.forward_input, &bytes.backward_input})
      for (const Bytes each : *of) sum += static_cast<double>(each.count());
    require_countable(sum);
  }
}

/// The tokens that are in the prefix which some slice sees. `begins`: where these slices begin.
Tokens seen_tokens(const std::vector<Tokens>& begins, Tokens window) {
  Tokens seen(0), end(0);
  for (const Tokens begin : begins) {
    const Tokens first =
        window > Tokens(0) ? std::max(Tokens(0), begin - window + Tokens(1)) : Tokens(0);
    seen += begin - std::max(first, end);
    end = begin;
  }
  return seen;
}

/// A stage's layers of one kind and recomputation.
struct AlikeLayers {
  std::size_t kind = 0;
  Recompute recompute = Recompute::kNothing;
  std::int64_t layers = 0;
};

/// From the stage's first layer to its last; neighbours that are alike together.
std::vector<AlikeLayers> layers_of(const AutogradStages& bound, StageId stage) {
  std::vector<AlikeLayers> runs;
  for (std::int32_t l = bound.first_layer(stage); l < bound.end_layer(stage); ++l) {
    const std::size_t kind = bound.cost.shape.kind_of(static_cast<std::size_t>(l));
    const Recompute recompute = bound.recompute_of(l);
    if (runs.empty() || runs.back().kind != kind || runs.back().recompute != recompute)
      runs.push_back({kind, recompute, 0});
    ++runs.back().layers;
  }
  return runs;
}

/// The bytes that a stage's MicroPacks hold. The object keeps references to its arguments.
class StageMemory {
 public:
  StageMemory(const AutogradStages& bound, StageId stage)
      : cost_(bound.cost),
        costs_(*bound.cost.autograd),
        runs_(layers_of(bound, stage)),
        keeps_(bound.keeps_graphs(stage)),
        first_(stage.value() == 0),
        last_(stage.value() == bound.layout.stages() - 1) {}

  [[nodiscard]] double input(Tokens tokens) const {
    return static_cast<double>(tokens.count()) *
           static_cast<double>(cost_.shape.hidden_size() * element_bytes(cost_.dtype));
  }

  /// Whether the stage keeps the graphs of MicroPacks that have a pair.
  [[nodiscard]] bool keeps() const { return keeps_; }

  /// The stage's input and everything that its layers leave for backward. `kept`: from forward on;
  /// otherwise of a forward that runs again.
  [[nodiscard]] double graph(const MicroPack& pack, bool kept) const {
    double bytes = input(pack.tokens());
    for (const AlikeLayers& run : runs_)
      bytes += static_cast<double>(run.layers) * sum_over(graph_of(run, kept).bytes, pack);
    return bytes;
  }

  /// Between a forward without a graph and its backward. Token ids cost nothing.
  [[nodiscard]] double kept_input(const MicroPack& pack) const {
    return first_ ? 0 : input(pack.tokens());
  }

  /// Bytes of a sequence's keys and values, or of their gradients' sums. `begins`: where the
  /// sequence's slices begin. `scale`: bytes for each byte of keys and values.
  [[nodiscard]] double key_values(const std::vector<Tokens>& begins, double scale) const {
    double bytes = 0;
    for (const AlikeLayers& run : runs_) {
      const Tokens seen = seen_tokens(begins, Tokens(cost_.shape.kinds[run.kind].window));
      bytes +=
          scale * static_cast<double>(run.layers * seen.count()) * costs_.layers[run.kind].kv_bytes;
    }
    return bytes;
  }

  [[nodiscard]] double head_peak(Tokens tokens) const {
    return costs_.head_peak.per_pack +
           costs_.head_peak.per_token * static_cast<double>(tokens.count());
  }

  [[nodiscard]] double forward_peak(const MicroPack& pack) const {
    double most = 0;
    for (const AlikeLayers& run : runs_)
      most = std::max(most, sum_over(costs_.layers[run.kind].forward_peak, pack));
    return most;
  }

  /// The peak beyond the stores as they were before. The head runs first, then the layers from the
  /// last one on; each opens the sums of its keys' gradients and frees its graph. `kept`: the graph
  /// was there before. `opened`: begins of the sequences whose sums this pack opens.
  [[nodiscard]] double backward_peak(const MicroPack& pack, bool kept, const Begins& opened,
                                     double scale) const {
    double held =
        (kept ? 0 : graph(pack, kept)) + input(pack.tokens());  // with the output's gradient
    double most = last_ ? held + head_peak(pack.tokens()) : held;
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
      const KeptGraph& graph = graph_of(*run, kept);
      const double peak = sum_over(graph.backward_peak, pack);
      double sums = 0;
      for (const std::vector<Tokens>& begins : opened)
        sums += scale * costs_.layers[run->kind].kv_bytes *
                static_cast<double>(
                    seen_tokens(begins, Tokens(cost_.shape.kinds[run->kind].window)).count());
      const double change = sums - sum_over(graph.bytes, pack);
      const auto further = static_cast<double>(run->layers - 1);
      most = std::max({most, held + sums + peak, held + further * change + sums + peak});
      held += static_cast<double>(run->layers) * change;
    }
    return most;
  }

 private:
  /// A layer of the run. What runs again in whole has its whole graph.
  [[nodiscard]] const KeptGraph& graph_of(const AlikeLayers& run, bool kept) const {
    return costs_.layers[run.kind].kept(kept ? run.recompute : Recompute::kNothing);
  }

  const Costs& cost_;
  const AutogradCosts& costs_;
  std::vector<AlikeLayers> runs_;
  bool keeps_, first_, last_;
};

/// The facts about a plan that are alike on all stages.
struct Flow {
  Begins prefixes;  ///< by sequence: where slices of either pass with a prefix begin
  Begins summed;    ///< of backward alone
  PairedPacks paired;
  std::vector<Begins> opened;  ///< by backward pack: of `summed`, the sequences that it is first of

  Flow(const PackPlan& packs, std::size_t sequences) : paired(packs) {
    add_begins(summed, packs.backward);
    prefixes = summed;
    add_begins(prefixes, packs.forward);
    summed.resize(sequences);
    prefixes.resize(sequences);
    std::vector<bool> begun(sequences);
    for (const MicroPack& pack : packs.backward) {
      Begins& of = opened.emplace_back();
      for (const Slice& slice : pack.slices) {
        const std::size_t q = slice.sequence.index();
        if (!begun[q] && slice.begin > Tokens(0)) of.push_back(summed[q]);
        begun[q] = true;
      }
    }
  }
};

void add_stage(TaskBytes& bytes, const StageMemory& stage, const PackPlan& packs, const Flow& flow,
               double sums_scale) {
  auto& rows = bytes.rows.emplace_back();
  auto& forward = bytes.forward_transient.emplace_back();
  for (std::size_t f = 0; f < packs.forward.size(); ++f) {
    const MicroPack& pack = packs.forward[f];
    const bool kept = stage.keeps() && flow.paired.forward[f];
    rows.push_back(whole(kept ? stage.graph(pack, kept) : stage.kept_input(pack)));
    forward.push_back(whole(stage.forward_peak(pack)));
  }
  auto& kv = bytes.kv.emplace_back();
  auto& dkv = bytes.dkv.emplace_back();
  for (std::size_t q = 0; q < flow.prefixes.size(); ++q) {
    kv.push_back(whole(stage.key_values(flow.prefixes[q], 1)));
    dkv.push_back(whole(stage.key_values(flow.summed[q], sums_scale)));
  }
  auto& backward = bytes.backward_transient.emplace_back();
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    backward.push_back(whole(stage.backward_peak(
        packs.backward[b], stage.keeps() && flow.paired.backward[b], flow.opened[b], sums_scale)));
}

}  // namespace

const KeptGraph& AutogradLayer::kept(Recompute recompute) const {
  SLIMPACK_CHECK(recompute == Recompute::kNothing || recompute == Recompute::kElementwise,
                 "no graph is kept of \"{}\"", to_string(recompute));
  return recompute == Recompute::kElementwise ? elementwise : whole;
}

AutogradStages::AutogradStages(const Costs& costs, const StageLayout& stages,
                               RecomputeByLayer by_layer, Replication replicas)
    : BoundStages(costs, stages, std::move(by_layer), std::move(replicas)) {
  for (std::int32_t s = 0; s < layout.stages() && !again_; ++s)
    if (keeps_graphs(StageId(s)))
      again_ = std::make_unique<const AutogradStages>(
          cost, layout,
          RecomputeByLayer(static_cast<std::size_t>(cost.shape.num_layers()), Recompute::kFull),
          replication);
}

bool AutogradStages::keeps_graphs(StageId stage) const {
  for (std::int32_t layer = first_layer(stage); layer < end_layer(stage); ++layer) {
    const Recompute policy = recompute_of(layer);
    if (policy != Recompute::kNothing && policy != Recompute::kElementwise) return false;
  }
  return true;
}

bool AutogradStages::may_skip_forward(StageId stage) const {
  return stage.value() == layout.stages() - 1 && !keeps_graphs(stage);
}

StageLayers AutogradStages::layers(StageId stage, Pass pass, std::int32_t replicas) const {
  const bool forward = pass == Pass::kForward;
  const bool keeps = keeps_graphs(stage);
  StageLayers sum;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    const auto counts = layers_by_recompute(stage, kind);
    const std::int32_t all = std::accumulate(counts.begin(), counts.end(), 0);
    const LayerCosts& layer = cost.kinds[kind];
    sum.exchange = sum.exchange + all * merge_time(layer, pass, replicas);
    if (!keeps) {
      sum.time = sum.time + all * (forward ? layer.forward : layer.backward);
      continue;
    }
    for (const Recompute policy : {Recompute::kNothing, Recompute::kElementwise}) {
      const KeptGraph& graph = cost.autograd->layers[kind].kept(policy);
      const std::int32_t kept = counts[static_cast<std::size_t>(policy)];
      sum.time = sum.time + kept * (forward ? graph.forward : graph.backward);
    }
  }
  return sum;
}

EdgeTime AutogradStages::beside_layers(StageId stage, Pass pass) const {
  return pass == Pass::kBackward && keeps_graphs(stage) ? EdgeTime() : cost.autograd->stage;
}

void AutogradStages::add_passes(TaskTimes& times, const SummedPacks& packs,
                                ReplicaId replica) const {
  const PairedPacks paired(packs.packs);
  const std::vector<bool> feeds = feeds_others(packs.packs);
  const auto add = [&](StageId stage, Pass pass) {
    const bool forward = pass == Pass::kForward;
    const bool keeps = keeps_graphs(stage);
    const double speed = replication.speed_of(replica, layout.placement.rank_of(stage));
    const PackCost kept = stage_cost(*this, stage, pass);
    PackCost again = keeps ? stage_cost(*again_, stage, pass) : kept;
    const bool last = stage.value() == layout.stages() - 1;
    if (forward && last) again = cut_short(cost, layout, again);
    const std::vector<PackSums>& sums = forward ? packs.forward : packs.backward;
    std::vector<Nanos>& added = (forward ? times.forward : times.backward).emplace_back();
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const bool with_graph = keeps && paired.of(pass)[p];
      const bool skipped = forward && last && !with_graph && !feeds[p];
      added.push_back(skipped ? Nanos(0) : time_of((with_graph ? kept : again) / speed, sums[p]));
    }
  };
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    for (const Pass pass : kWholePasses) add(StageId(s), pass);
}

/// Every replica has all gradients of its stages, and updates all trained parameters. If tied ones
/// are trained, they have a gradient on the first and one on the last stage.
void AutogradStages::add_step_end(TaskTimes& times, const PackPlan&, ReplicaId replica) const {
  const double gradient = cost.autograd->state.gradients;
  const std::int64_t tied_trained = cost.trained       ? cost.trained->edges.shared
                                    : cost.shape.edges ? cost.shape.edges->shared
                                                       : 0;
  for (std::int32_t rank = 0; rank < layout.ranks(); ++rank) {
    double parameters = 0;
    for (const StageId stage : layout.placement.stages_of(rank))
      parameters += static_cast<double>(stage_parameters(cost, layout, stage).trained);
    const bool edge = rank == 0 || rank == layout.ranks() - 1;
    const double tied = edge && layout.stages() > 1 ? static_cast<double>(tied_trained) : 0;
    const double exchanged =
        tied > 0 ? cost.transfer.latency + cost.transfer.per_byte * gradient * tied : 0;
    // An all-reduce is a ring that sums and a ring that hands out.
    times.reduce.push_back(
        rounded(2 * ring_time(cost, parameters * gradient, replication.replicas) + exchanged));
    times.step_end.push_back(
        rounded(cost.optimizer_per_parameter * parameters / replication.speed_of(replica, rank)));
  }
}

/// The reduction follows the last action whole.
double AutogradStages::least_reduction(double) const {
  TaskTimes ends;
  add_step_end(ends, {}, ReplicaId(0));
  return static_cast<double>(ends.reduce.front().count());
}

/// Rows are a pack's inputs or its graph.
TaskBytes AutogradStages::bytes(const PackPlan& packs, const SequenceLengths& lengths, Counted,
                                ReplicaId) const {
  const Flow flow(packs, lengths.size());
  const double sums_scale = static_cast<double>(accumulator_bytes(cost.dtype)) /
                            static_cast<double>(element_bytes(cost.dtype));
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    add_stage(bytes, StageMemory(*this, StageId(s)), packs, flow, sums_scale);
  const StageMemory any(*this, StageId(std::int32_t{0}));
  for (const MicroPack& pack : packs.forward)
    bytes.forward_input.push_back(whole(any.input(pack.tokens())));
  for (const MicroPack& pack : packs.backward)
    bytes.backward_input.push_back(whole(any.input(pack.tokens())));
  require_countable(bytes);
  return bytes;
}

Bytes AutogradStages::sequence_bytes(StageId stage, Tokens tokens) const {
  const MicroPack pack{{{SequenceId(), Tokens(0), tokens}}};
  return whole(StageMemory(*this, stage).kept_input(pack));
}

ModelState AutogradStages::state(const ParameterCount& held, const ParameterCount&) const {
  const StateBytes& of = cost.autograd->state;
  const auto trained = static_cast<double>(held.trained);
  const auto bytes = [](double all) { return Bytes(static_cast<std::int64_t>(std::ceil(all))); };
  return {bytes(weight_bytes(cost).of(held)), bytes(trained * of.gradients),
          bytes(trained * of.optimizer)};
}

}  // namespace slimpack
