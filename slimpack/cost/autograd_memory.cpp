// Autograd memory: the bytes of a run whose layers are a model's own (AutogradCosts has its rules).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/autograd_packs.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/parameter_counts.h"

namespace slimpack {
namespace {

/// The sum of a form over a MicroPack's slices.
double sum_over(const PackCost& form, const MicroPack& pack) {
  double sum = form.per_pack;
  for (const Slice& slice : pack.slices) sum += form(slice);
  return sum;
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

/// Where bytes are held between a forward and a backward pass.
enum class Held : std::uint8_t { kDevice, kHost };

/// A stage's layers of one kind and recomputation.
struct AlikeLayers {
  std::size_t kind = 0;
  Recompute recompute = Recompute::kNothing;
  std::int64_t layers = 0;

  [[nodiscard]] Held held() const {
    return recompute == Recompute::kOffload ? Held::kHost : Held::kDevice;
  }
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
    return static_cast<double>(tokens.count()) * input_bytes(cost_);
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
  [[nodiscard]] double kept_input(const MicroPack& pack, Held where) const {
    const bool host = std::ranges::any_of(
        runs_, [](const AlikeLayers& run) { return run.held() == Held::kHost; });
    return first_ || (where == Held::kHost) != host ? 0 : input(pack.tokens());
  }

  /// Bytes of one set of a sequence's states that are held there, or of their gradients.
  [[nodiscard]] double states(double AutogradLayer::*bytes, Held where) const {
    double sum = 0;
    for (const AlikeLayers& run : runs_)
      if (run.held() == where)
        sum += static_cast<double>(run.layers) * costs_.layers[run.kind].*bytes;
    return sum;
  }

  /// Bytes of a sequence's keys and values, or of their gradients' sums, that are held there.
  /// `begins`: where the sequence's slices begin. `scale`: bytes for each byte of keys and values.
  [[nodiscard]] double key_values(const std::vector<Tokens>& begins, double scale,
                                  Held where) const {
    double bytes = 0;
    for (const AlikeLayers& run : runs_) {
      if (run.held() != where) continue;
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
      if (run->held() == Held::kDevice)
        for (const std::vector<Tokens>& begins : opened) sums += opened_sums(*run, begins, scale);
      const double change = sums - sum_over(graph.bytes, pack);
      const auto further = static_cast<double>(run->layers - 1);
      most = std::max({most, held + sums + peak, held + further * change + sums + peak});
      held += static_cast<double>(run->layers) * change;
    }
    return most;
  }

 private:
  /// The bytes that one of the run's layers opens for a sequence.
  [[nodiscard]] double opened_sums(const AlikeLayers& run, const std::vector<Tokens>& begins,
                                   double scale) const {
    const AutogradLayer& layer = costs_.layers[run.kind];
    const Tokens seen = seen_tokens(begins, Tokens(cost_.shape.kinds[run.kind].window));
    return scale * layer.kv_bytes * static_cast<double>(seen.count()) + layer.state_gradient_bytes;
  }

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

  /// The sets of a sequence's states that are there at the same time: one for each backward slice
  /// with a prefix, and one that only forward slices hand on.
  [[nodiscard]] double state_sets(std::size_t q) const {
    return static_cast<double>(summed[q].size() + (prefixes[q].size() > summed[q].size() ? 1 : 0));
  }

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

/// Adds what the stage holds of each sequence: keys and values and states, and their gradients.
void add_sequences(TaskBytes& bytes, const StageMemory& stage, const Flow& flow, double scale,
                   Held where) {
  const double state = stage.states(&AutogradLayer::state_bytes, where);
  const double gradient = stage.states(&AutogradLayer::state_gradient_bytes, where);
  auto& kv = bytes.kv.emplace_back();
  auto& dkv = bytes.dkv.emplace_back();
  for (std::size_t q = 0; q < flow.prefixes.size(); ++q) {
    kv.push_back(whole(stage.key_values(flow.prefixes[q], 1, where) + flow.state_sets(q) * state));
    dkv.push_back(whole(stage.key_values(flow.summed[q], scale, where) +
                        (flow.summed[q].empty() ? 0 : gradient)));
  }
}

void add_stage(TaskBytes& bytes, const StageMemory& stage, const PackPlan& packs, const Flow& flow,
               double scale) {
  auto& rows = bytes.rows.emplace_back();
  auto& forward = bytes.forward_transient.emplace_back();
  for (std::size_t f = 0; f < packs.forward.size(); ++f) {
    const MicroPack& pack = packs.forward[f];
    const bool kept = stage.keeps() && flow.paired.forward[f];
    rows.push_back(whole(kept ? stage.graph(pack, kept) : stage.kept_input(pack, Held::kDevice)));
    forward.push_back(whole(stage.forward_peak(pack)));
  }
  add_sequences(bytes, stage, flow, scale, Held::kDevice);
  auto& backward = bytes.backward_transient.emplace_back();
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    backward.push_back(whole(stage.backward_peak(
        packs.backward[b], stage.keeps() && flow.paired.backward[b], flow.opened[b], scale)));
}

/// Adds what the stage holds in host memory.
void add_host_stage(TaskBytes& bytes, const StageMemory& stage, const PackPlan& packs,
                    const Flow& flow, double scale) {
  auto& rows = bytes.rows.emplace_back();
  for (const MicroPack& pack : packs.forward)
    rows.push_back(whole(stage.kept_input(pack, Held::kHost)));
  add_sequences(bytes, stage, flow, scale, Held::kHost);
  bytes.forward_transient.emplace_back(packs.forward.size());
  bytes.backward_transient.emplace_back(packs.backward.size());
}

}  // namespace

/// Rows are a pack's inputs or its graph.
TaskBytes AutogradStages::bytes(const PackPlan& packs, const SequenceLengths& lengths, Counted,
                                ReplicaId) const {
  const Flow flow(packs, lengths.size());
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    add_stage(bytes, StageMemory(*this, StageId(s)), packs, flow, sums_scale(cost));
  const StageMemory any(*this, StageId(std::int32_t{0}));
  for (const MicroPack& pack : packs.forward)
    bytes.forward_input.push_back(whole(any.input(pack.tokens())));
  for (const MicroPack& pack : packs.backward)
    bytes.backward_input.push_back(whole(any.input(pack.tokens())));
  require_countable(bytes);
  return bytes;
}

TaskBytes AutogradStages::host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                     ReplicaId) const {
  const Flow flow(packs, lengths.size());
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    add_host_stage(bytes, StageMemory(*this, StageId(s)), packs, flow, sums_scale(cost));
  bytes.forward_input.resize(packs.forward.size());
  bytes.backward_input.resize(packs.backward.size());
  require_countable(bytes);
  return bytes;
}

Bytes AutogradStages::sequence_bytes(StageId stage, Tokens tokens) const {
  const MicroPack pack{{{SequenceId(), Tokens(0), tokens}}};
  return whole(StageMemory(*this, stage).kept_input(pack, Held::kDevice));
}

ModelState AutogradStages::state(const RankParameters& rank) const {
  const ParameterCount& held = rank.held;
  const StateBytes& of = cost.autograd->state;
  const WeightBytes weight = weight_bytes(cost);
  const bool gathers_by_layer = cost.zero == 3 && replication.replicas > 1;
  const bool shares = gathers_by_layer || (cost.shard_replicas && replication.replicas > 1);
  ParameterCount share = held;
  if (shares) {
    share.frozen = share_of(held.frozen, replication.replicas);
    // Replicas share out parameters of one dtype; adapters of another one stay whole.
    if (weight.trained == weight.frozen)
      share.trained = share_of(held.trained, replication.replicas);
  }
  const auto bytes = [](double all) { return Bytes(static_cast<std::int64_t>(std::ceil(all))); };
  const auto trained = static_cast<double>(share.trained);
  // Whole parameters are gathered beside the share: all that the rank holds, or what lies outside
  // of layers with a layer that runs and one that travels. Parameters that stay whole are no share.
  const auto gathered = [&](std::int64_t all, std::int64_t ends, std::int64_t layer) {
    return gathers_by_layer ? std::min(all, ends + 2 * layer) : all;
  };
  ParameterCount whole{gathered(held.frozen, rank.ends.frozen, rank.layer.frozen),
                       gathered(held.trained, rank.ends.trained, rank.layer.trained)};
  const bool trained_stay = share.trained == held.trained;
  if (trained_stay) whole.trained = held.trained;
  ParameterCount there = whole;
  if (shares) there.frozen += share.frozen;
  if (shares && !trained_stay) there.trained += share.trained;
  const std::int64_t summed =
      whole.trained + (gathers_by_layer && !trained_stay ? share.trained : 0);
  return {bytes(weight.of(there)), bytes(static_cast<double>(summed) * of.gradients),
          bytes(trained * of.optimizer), bytes(trained * cost.host.state_per_parameter)};
}

}  // namespace slimpack
