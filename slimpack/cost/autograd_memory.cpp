#include "slimpack/cost/autograd_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/plan/paired_packs.h"

namespace slimpack {
namespace {

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
std::vector<AlikeLayers> layers_of(const RecomputingCosts& cost, const StageLayout& layout,
                                   StageId stage) {
  std::vector<AlikeLayers> runs;
  for (std::int32_t l = layout.layer_begin[stage.index()];
       l < layout.layer_begin[stage.index() + 1]; ++l) {
    const auto layer = static_cast<std::size_t>(l);
    const std::size_t kind = cost.shape.kind_of(layer);
    const Recompute recompute = recompute_of(cost.recompute, layer);
    if (runs.empty() || runs.back().kind != kind || runs.back().recompute != recompute)
      runs.push_back({kind, recompute, 0});
    ++runs.back().layers;
  }
  return runs;
}

/// The bytes that a stage's MicroPacks hold. The object keeps references to its arguments.
class StageMemory {
 public:
  StageMemory(const RecomputingCosts& cost, const StageLayout& layout, StageId stage)
      : cost_(cost),
        costs_(*cost.autograd),
        runs_(layers_of(cost, layout, stage)),
        keeps_(keeps_graphs(cost, layout, stage)),
        first_(stage.value() == 0),
        last_(stage.value() == layout.stages() - 1) {}

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

  const RecomputingCosts& cost_;
  const AutogradCosts& costs_;
  std::vector<AlikeLayers> runs_;
  bool keeps_, first_, last_;
};

/// The facts about a plan that are alike on all stages.
struct Flow {
  Begins prefixes;  ///< by sequence: where slices of either pass with a prefix begin
  Begins summed;    ///< of backward alone
  std::vector<std::optional<PackId>> pairs;
  std::vector<bool> kept;      ///< by forward pack
  std::vector<Begins> opened;  ///< by backward pack: of `summed`, the sequences that it is first of

  Flow(const PackPlan& packs, std::size_t sequences)
      : pairs(forward_pairs(packs)), kept(packs.forward.size()) {
    add_begins(summed, packs.backward);
    prefixes = summed;
    add_begins(prefixes, packs.forward);
    summed.resize(sequences);
    prefixes.resize(sequences);
    for (const auto& forward : pairs)
      if (forward) kept[forward->index()] = true;
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
    const bool kept = stage.keeps() && flow.kept[f];
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
    backward.push_back(whole(stage.backward_peak(packs.backward[b], stage.keeps() && flow.pairs[b],
                                                 flow.opened[b], sums_scale)));
}

}  // namespace

TaskBytes autograd_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                         const PackPlan& packs, const SequenceLengths& lengths) {
  const Flow flow(packs, lengths.size());
  const double sums_scale = static_cast<double>(accumulator_bytes(cost.dtype)) /
                            static_cast<double>(element_bytes(cost.dtype));
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    add_stage(bytes, StageMemory(cost, layout, StageId(s)), packs, flow, sums_scale);
  const StageMemory any(cost, layout, StageId(std::int32_t{0}));
  for (const MicroPack& pack : packs.forward)
    bytes.forward_input.push_back(whole(any.input(pack.tokens())));
  for (const MicroPack& pack : packs.backward)
    bytes.backward_input.push_back(whole(any.input(pack.tokens())));
  require_countable(bytes);
  return bytes;
}

Bytes autograd_sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                              StageId stage, Tokens tokens) {
  const MicroPack pack{{{SequenceId(), Tokens(0), tokens}}};
  return whole(StageMemory(cost, layout, stage).kept_input(pack));
}

}  // namespace slimpack
