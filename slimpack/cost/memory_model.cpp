// Memory model: activation bytes of every action and store, by the runtime's own rules
// (docs/row-store.md explains each term).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/attention_memory.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/vocabulary_memory.h"
#include "slimpack/plan/regroup.h"

namespace slimpack {
namespace {

MicroPack own_share(const MicroPack& pack, const SequenceLengths& lengths, std::int32_t member) {
  MicroPack out{{}, pack.replicas};
  for (std::size_t i = 0; i < pack.slices.size(); ++i) {
    const Zone zone = pack.zone(i);
    if (!zone.has(member)) continue;
    const Slice& s = pack.slices[i];
    const std::int64_t end = s.end.count();
    const bool last = s.end == lengths[s.sequence.index()];
    out.slices.push_back({s.sequence, s.begin / zone.size,
                          Tokens(last ? share_of(end, zone.size) : end / zone.size)});
    if (!pack.zones.empty()) out.zones.push_back(zone);
  }
  return out;
}

/// A replica's packs, with its shares of merged packs as slices of shorter sequences, and the
/// lengths of these. Sequences of which it holds nothing have no slice and no length. Where nothing
/// is merged it keeps references to what it is given, for copies take long.
class HeldPacks {
 public:
  /// `lengths` are indexed by the packs' SequenceIds.
  HeldPacks(const PackPlan& packs, const SequenceLengths& lengths, ReplicaId replica)
      : packs_(&packs), lengths_(&lengths) {
    const auto merged = [](const MicroPack& pack) { return pack.replicas > 1; };
    if (std::ranges::any_of(packs.forward, merged)) take_shares(replica);
  }
  HeldPacks(const HeldPacks&) = delete;
  HeldPacks& operator=(const HeldPacks&) = delete;

  [[nodiscard]] const PackPlan& packs() const { return *packs_; }
  [[nodiscard]] const SequenceLengths& lengths() const { return *lengths_; }

 private:
  void take_shares(ReplicaId replica) {
    shares_ = *packs_;
    shorter_ = *lengths_;
    for (auto* pass : {&shares_.forward, &shares_.backward})
      for (MicroPack& pack : *pass)
        if (pack.replicas > 1) pack = own_share(pack, *lengths_, replica.value() % pack.replicas);
    for (const MicroPack& pack : packs_->forward) {
      if (pack.replicas == 1) continue;
      for (std::size_t i = 0; i < pack.slices.size(); ++i) {
        const std::size_t sequence = pack.slices[i].sequence.index();
        const Zone zone = pack.zone(i);
        shorter_[sequence] = zone.has(replica.value() % pack.replicas)
                                 ? Tokens(share_of((*lengths_)[sequence].count(), zone.size))
                                 : Tokens(0);
      }
    }
    packs_ = &shares_;
    lengths_ = &shorter_;
  }

  const PackPlan* packs_;
  const SequenceLengths* lengths_;
  PackPlan shares_;
  SequenceLengths shorter_;
};

/// Throws if the bytes of `tokens` tokens in `layers` layers could not be added up in 64 bits.
void require_countable(const Costs& cost, std::int32_t layers, double tokens) {
  constexpr double kMostBytes = 0x1p62;
  constexpr double kStores = 16;  // no rank holds more of a layer at once: rows, keys, operands …
  double width = 0;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    const LayerShape& s = cost.shape.kinds[kind];
    const std::int64_t elements = s.hidden_size * (1 + 2 * s.experts_per_token) + s.q_width() +
                                  s.out_width() + s.k_width() + s.v_width() + 3 * s.active_width();
    width = std::max(width, static_cast<double>(8 * elements));
  }
  if (kStores * std::max(width, cost.row_bytes) * layers * tokens >= kMostBytes)
    invalid_input(
        "activations of {:.0f} tokens in {} layers of up to {} bytes per token cannot be counted "
        "in 64 "
        "bits; give fewer tokens or correct the cost model",
        tokens, layers, std::max(width, cost.row_bytes));
}

std::vector<Bytes> per_sequence(const SequenceLengths& lengths, std::int64_t bytes_per_token) {
  std::vector<Bytes> result;
  result.reserve(lengths.size());
  for (const Tokens length : lengths) result.emplace_back(length.count() * bytes_per_token);
  return result;
}

/// Neighbouring layers of a stage that are alike.
struct LayerRun {
  std::size_t kind = 0;
  Recompute recompute = Recompute::kElementwise;
  /// Bytes of a token's row in the layer before each of these if that layer offloads it, else 0.
  /// The row travels while one of these runs: to the host in forward, back in backward.
  std::int64_t travelling = 0;
  std::int64_t layers = 0;

  [[nodiscard]] bool offloads() const { return recompute == Recompute::kOffload; }
};

/// By kind of layer.
std::vector<LayerWidths> widths_of(const Costs& cost, Counted counted = Counted::kAll) {
  std::vector<LayerWidths> widths;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind)
    widths.emplace_back(cost.shape, kind, cost.dtype, cost.tp).runtime.comm = cost.cp_comm_type;
  if (!cost.device.gpu) return widths;
  for (LayerWidths& w : widths) {
    w.run_on(*cost.device.gpu);
    w.runtime.kernel_bytes = counted >= Counted::kKernels;
  }
  return widths;
}

HeadMemory head_of(const LayerWidths& widths, const Costs& cost) {
  return {widths, cost.shape.vocab_size, cost.device.gpu ? DeviceKind::kCuda : DeviceKind::kCpu};
}

std::vector<LayerRun> runs_of(const BoundStages& bound, const std::vector<LayerWidths>& widths,
                              StageId stage) {
  std::vector<LayerRun> runs;
  for (std::int32_t l = bound.first_layer(stage); l < bound.end_layer(stage); ++l) {
    LayerRun run{bound.cost.shape.kind_of(static_cast<std::size_t>(l)), bound.recompute_of(l), 0,
                 0};
    if (!runs.empty() && runs.back().offloads()) run.travelling = widths[runs.back().kind].row();
    const auto alike = [&](const LayerRun& before) {
      return before.kind == run.kind && before.recompute == run.recompute &&
             before.travelling == run.travelling;
    };
    if (runs.empty() || !alike(runs.back())) runs.push_back(run);
    ++runs.back().layers;
  }
  return runs;
}

/// Σ over a stage's layers of what a kind of layer has.
template <class Of>
std::int64_t sum_of(const std::vector<LayerRun>& runs, Of of) {
  std::int64_t bytes = 0;
  for (const LayerRun& run : runs) bytes += run.layers * of(run);
  return bytes;
}

std::int64_t kept_rows(const std::vector<LayerWidths>& widths, const std::vector<LayerRun>& runs) {
  return sum_of(runs, [&](const LayerRun& run) { return widths[run.kind].kept(run.recompute); });
}

std::int64_t offloading_layers(const std::vector<LayerRun>& runs) {
  std::int64_t layers = 0;
  for (const LayerRun& run : runs) layers += run.offloads() ? run.layers : 0;
  return layers;
}

/// Bytes of a layer by its recomputation and by pack. Empty for a recomputation that no layer has.
using TransientsByRecompute = std::array<std::vector<std::int64_t>, kRecomputations>;

/// Bytes by pack, for layers of one kind. They are the same on every stage, except for the
/// recomputation of its layers.
struct PackTransients {
  /// The peaks of one layer. `input`: of a backward that puts its weight gradients off.
  TransientsByRecompute forward, backward, input;
  std::vector<std::int64_t> head;
  std::vector<Bytes> weights;           ///< by backward pack, of its weight gradients
  std::vector<std::int64_t> opened_kv;  ///< by forward pack: K and V of a layer
  std::vector<LayerStores> stores;      ///< by backward pack: of a layer
  std::vector<std::int64_t> ended;  ///< by backward pack: rows of the forward packs that it frees
};

/// A kind of layer.
struct KindMemory {
  LayerWidths widths;
  PackTransients transients;
};

std::vector<std::int64_t> forward_transients(const LayerWidths& w, const PackPlan& packs,
                                             Recompute recompute) {
  std::vector<std::int64_t> out;
  for (const MicroPack& pack : packs.forward)
    out.push_back(layer_forward_transient(w, pack, recompute));
  return out;
}

/// How a backward MicroPack gets its rows.
enum class RowsFrom : std::uint8_t {
  kCopies,  ///< as copies, from several forward MicroPacks
  kViews,   ///< as views of a part of one forward MicroPack
  kWhole,   ///< as all rows of one forward MicroPack
};

RowsFrom rows_from(const PackPlan& packs, const std::vector<RowSegment>& segments) {
  if (segments.size() > 1) return RowsFrom::kCopies;
  if (segments.empty()) return RowsFrom::kWhole;  // the replica holds no row of it
  const RowSegment& segment = segments.front();
  return segment.rows < packs.forward[segment.forward.index()].tokens() ? RowsFrom::kViews
                                                                        : RowsFrom::kWhole;
}

std::vector<std::int64_t> backward_transients(const LayerWidths& w, const HeldPacks& held,
                                              const std::vector<RowsFrom>& rows,
                                              Recompute recompute, bool split) {
  std::vector<std::int64_t> out;
  for (std::size_t p = 0; p < held.packs().backward.size(); ++p) {
    const MicroPack& pack = held.packs().backward[p];
    // A fetched row belongs to this MicroPack alone.
    const bool views = rows[p] == RowsFrom::kViews && recompute != Recompute::kOffload;
    const PutOffWidths put_off = split ? put_off_widths(w, recompute, views) : PutOffWidths{};
    const std::int64_t copied = rows[p] == RowsFrom::kCopies ? w.joined(recompute) : 0;
    out.push_back(layer_backward_transient(w, pack, held.lengths(), recompute, put_off) +
                  pack.tokens().count() * copied);
  }
  return out;
}

PackTransients pack_transients(const LayerWidths& w, const BoundStages& bound,
                               const PackPlan& packs, const HeldPacks& held) {
  const SequenceLengths& lengths = held.lengths();
  PackTransients out;
  for (const MicroPack& pack : held.packs().forward) {
    std::int64_t& opened = out.opened_kv.emplace_back(0);
    for (const Slice& s : pack.slices)
      if (s.begin == Tokens(0)) opened += 2 * w.k * lengths[s.sequence.index()].count();
  }
  const auto segments = regroup(held.packs());
  const HeadMemory head = head_of(w, bound.cost);
  std::vector<RowsFrom> rows;
  std::vector<std::size_t> last_use(packs.forward.size());
  for (std::size_t p = 0; p < packs.backward.size(); ++p) {
    const MicroPack& pack = held.packs().backward[p];
    const std::int64_t tokens = pack.tokens().count();
    rows.push_back(rows_from(held.packs(), segments[p]));
    LayerStores& stores = out.stores.emplace_back();
    for (const Slice& s : pack.slices) {
      stores.open(w, s, lengths[s.sequence.index()]);
      stores.close(w, s, lengths[s.sequence.index()]);
    }
    out.weights.emplace_back(weight_gradient_transient(w, tokens));
    out.head.push_back(head.peak(tokens) + (rows[p] == RowsFrom::kCopies ? tokens * w.hidden : 0));
    for (const RowSegment& segment : segments[p]) last_use[segment.forward.index()] = p;
  }
  out.ended.resize(packs.backward.size());
  for (std::size_t f = 0; f < last_use.size(); ++f)
    out.ended[last_use[f]] += held.packs().forward[f].tokens().count();
  for (const Recompute recompute : all_recomputations()) {
    const auto r = static_cast<std::size_t>(recompute);
    const RecomputeByLayer& by_layer = bound.recompute;
    const bool used = by_layer.empty() ? recompute == Recompute::kElementwise
                                       : std::ranges::find(by_layer, recompute) != by_layer.end();
    if (!used) continue;
    out.forward[r] = forward_transients(w, held.packs(), recompute);
    out.backward[r] = backward_transients(w, held, rows, recompute, false);
    if (bound.splits_backward()) out.input[r] = backward_transients(w, held, rows, recompute, true);
  }
  return out;
}

/// The peak beyond the stores as they are after the action. Layers that have not run yet lack their
/// rows, keys and values. So the last layer of a run of like layers has the run's peak.
std::int64_t stage_forward_transient(const std::vector<KindMemory>& kinds,
                                     const std::vector<LayerRun>& runs, std::size_t pack,
                                     std::int64_t tokens) {
  std::int64_t most = 0;
  std::int64_t to_come = 0;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const auto& [w, transients] = kinds[run->kind];
    const auto r = static_cast<std::size_t>(run->recompute);
    const std::int64_t leaving = tokens * run->travelling;
    most = std::max(most, transients.forward[r][pack] + leaving - to_come);
    to_come += run->layers * (tokens * w.kept(run->recompute) + transients.opened_kv[pack]);
  }
  return most;
}

/// The tensors that a backward leaves behind: one that puts its weight gradients off leaves their
/// operands.
enum class Leaves : std::uint8_t { kNothing, kOperands };

/// The peak beyond the stores as they were before the action. The last layer runs first. Each layer
/// opens its dK and dV, and frees what has ended when it is done. Within a run of like layers the
/// bytes only rise or only fall, so the run's first or last layer has its peak. `freed`: what the
/// head frees before any layer.
std::int64_t stage_backward_transient(const std::vector<KindMemory>& kinds,
                                      const std::vector<LayerRun>& runs, std::size_t pack,
                                      std::int64_t tokens, Leaves leaves, std::int64_t freed) {
  std::int64_t most = 0;
  std::int64_t held = -freed;  // by the stores, before the layer
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const auto& [w, transients] = kinds[run->kind];
    const bool puts_off = leaves == Leaves::kOperands;
    const TransientsByRecompute& layer = puts_off ? transients.input : transients.backward;
    const std::int64_t left = puts_off ? tokens * w.weight_operands() : 0;
    const LayerStores& stores = transients.stores[pack];
    const std::int64_t transient = stores.opened +
                                   layer[static_cast<std::size_t>(run->recompute)][pack] +
                                   tokens * run->travelling;
    const std::int64_t change =
        left + stores.opened - stores.closed - transients.ended[pack] * w.kept(run->recompute);
    most = std::max({most, held + transient, held + (run->layers - 1) * change + transient});
    held += run->layers * change;
  }
  return most;
}

std::vector<Bytes> per_pack(const std::vector<MicroPack>& packs, std::int64_t bytes_per_token) {
  std::vector<Bytes> result;
  result.reserve(packs.size());
  for (const MicroPack& pack : packs) result.emplace_back(pack.tokens().count() * bytes_per_token);
  return result;
}

std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::ceil(bytes));
}

/// TaskBytes with rows of cost.row_bytes per token and layer of any kind, scaled by what the layer
/// keeps. Only offloaded rows in transit and the operands of a split backward count besides, scaled
/// likewise.
TaskBytes bytes_of_rows(const BoundStages& bound, const HeldPacks& held) {
  const Costs& cost = bound.cost;
  const std::vector<LayerWidths> widths = widths_of(cost);
  const LayerWidths& w = widths.front();
  TaskBytes bytes;
  const std::vector<Bytes> no_sequence(held.lengths().size());
  const std::vector<Bytes> no_forward(held.packs().forward.size());
  const std::vector<Bytes> no_backward(held.packs().backward.size());
  for (std::int32_t s = 0; s < bound.layout.stages(); ++s) {
    const auto proportion = [&](std::int64_t bytes_of_model) {
      return cost.row_bytes * static_cast<double>(bytes_of_model) / static_cast<double>(w.row());
    };
    const std::vector<LayerRun> runs = runs_of(bound, widths, StageId(s));
    const double row = proportion(kept_rows(widths, runs));
    // In transit to host memory or back: a layer's rows beside those of the layer that runs.
    const auto travelling = static_cast<double>(std::min<std::int64_t>(2, offloading_layers(runs)));
    const std::int64_t on_their_way = whole_bytes(travelling * cost.row_bytes);
    bytes.rows.push_back(per_pack(held.packs().forward, whole_bytes(row)));
    bytes.kv.push_back(no_sequence);
    bytes.dkv.push_back(no_sequence);
    bytes.forward_transient.push_back(per_pack(held.packs().forward, on_their_way));
    bytes.backward_transient.push_back(per_pack(held.packs().backward, on_their_way));
    if (!bound.splits_backward()) continue;
    const double operands = proportion(bound.layout.layers(StageId(s)) * w.weight_operands());
    bytes.weight_operands.push_back(per_pack(held.packs().backward, whole_bytes(operands)));
    bytes.input_transient.push_back(
        per_pack(held.packs().backward, whole_bytes(operands) + on_their_way));
    bytes.weight_transient.push_back(no_backward);
  }
  bytes.forward_input = no_forward;
  bytes.backward_input = no_backward;
  return bytes;
}

/// Adds a stage's rows, keys and values, and the transients of its actions. `last`: whether the
/// stage has the head to itself.
void add_stage(TaskBytes& bytes, const HeldPacks& held, const std::vector<KindMemory>& kinds,
               const std::vector<LayerRun>& runs, bool last, bool split) {
  const auto sum = [&](auto of) {
    return sum_of(runs, [&](const LayerRun& run) { return of(kinds[run.kind].widths, run); });
  };
  const std::int64_t hidden = kinds.front().widths.hidden;  // of all kinds
  bytes.kv.push_back(per_sequence(
      held.lengths(), sum([](const LayerWidths& w, const LayerRun&) { return 2 * w.k; })));
  bytes.dkv.push_back(per_sequence(
      held.lengths(), sum([](const LayerWidths& w, const LayerRun&) { return w.gradients(); })));
  auto& rows = bytes.rows.emplace_back();
  auto& forward = bytes.forward_transient.emplace_back();
  const std::int64_t kept =
      sum([](const LayerWidths& w, const LayerRun& run) { return w.kept(run.recompute); });
  for (std::size_t p = 0; p < held.packs().forward.size(); ++p) {
    // The last stage's output is the head's input, which is kept with the rows.
    const std::int64_t tokens = held.packs().forward[p].tokens().count();
    const std::int64_t head = last ? tokens * hidden : 0;
    rows.emplace_back(tokens * kept + head);
    forward.emplace_back(stage_forward_transient(kinds, runs, p, tokens) - head);
  }
  const KindMemory& end = kinds[runs.back().kind];
  const auto backward = [&](Leaves leaves) {
    std::vector<Bytes> out;
    for (std::size_t p = 0; p < held.packs().backward.size(); ++p) {
      const std::int64_t tokens = held.packs().backward[p].tokens().count();
      const std::int64_t freed = last ? end.transients.ended[p] * hidden : 0;
      const std::int64_t stage = stage_backward_transient(kinds, runs, p, tokens, leaves, freed);
      // The last layer's rows are fetched while the head runs.
      const std::int64_t fetched = runs.back().offloads() ? tokens * end.widths.row() : 0;
      const std::int64_t head = end.transients.head[p] + fetched;
      out.emplace_back(last ? std::max(stage, head) : stage);
    }
    return out;
  };
  bytes.backward_transient.push_back(backward(Leaves::kNothing));
  if (!split) return;
  bytes.weight_operands.push_back(
      per_pack(held.packs().backward,
               sum([](const LayerWidths& w, const LayerRun&) { return w.weight_operands(); })));
  bytes.input_transient.push_back(backward(Leaves::kOperands));
  auto& weights = bytes.weight_transient.emplace_back(held.packs().backward.size());
  for (const LayerRun& run : runs)
    for (std::size_t p = 0; p < weights.size(); ++p)
      weights[p] = std::max(weights[p], kinds[run.kind].transients.weights[p]);
}

}  // namespace

Bytes PackFlowStages::sequence_bytes(StageId stage, Tokens tokens) const {
  require_countable(cost, layout.layers(stage), static_cast<double>(tokens.count()));
  const std::vector<LayerWidths> widths = widths_of(cost);
  const std::vector<LayerRun> runs = runs_of(*this, widths, stage);
  const std::int64_t rows = kept_rows(widths, runs);
  const auto row = static_cast<double>(widths.front().row());
  if (cost.row_bytes > 0)
    return Bytes(whole_bytes(cost.row_bytes * static_cast<double>(rows) / row) * tokens.count());
  const std::int64_t kv = sum_of(runs, [&](const LayerRun& run) { return 2 * widths[run.kind].k; });
  return Bytes((rows + kv) * tokens.count());
}

Bytes StageTable::sequence_bytes(std::int32_t rank, Tokens tokens) const {
  Bytes sum;
  for (const StageId stage : layout().placement.stages_of(rank))
    sum += bound_->sequence_bytes(stage, tokens);
  return sum;
}

TaskBytes StageTable::bytes(const PackPlan& packs, const SequenceLengths& lengths, Counted counted,
                            ReplicaId replica) const {
  return with_free_vocabulary(bound_->bytes(packs, lengths, counted, replica), layout(), packs);
}

TaskBytes PackFlowStages::bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                Counted counted, ReplicaId replica) const {
  require_countable(cost, layout.layer_begin.back(),
                    static_cast<double>(total_tokens(lengths).count()));
  const HeldPacks held(packs, lengths, replica);
  if (cost.row_bytes > 0) return bytes_of_rows(*this, held);
  const std::vector<LayerWidths> widths = widths_of(cost, counted);
  std::vector<KindMemory> kinds;
  for (const LayerWidths& w : widths) kinds.push_back({w, pack_transients(w, *this, packs, held)});
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    add_stage(bytes, held, kinds, runs_of(*this, widths, StageId(s)),
              s == layout.stages() - 1 && !layout.spread_vocabulary, splits_backward());
  if (layout.spread_vocabulary)
    add_vocabulary(bytes, head_of(widths.front(), cost), held.packs(), layout.ranks());
  bytes.forward_input = per_pack(held.packs().forward, widths.front().hidden);
  bytes.backward_input = per_pack(held.packs().backward, widths.front().hidden);
  return bytes;
}

TaskBytes StageTable::host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                 ReplicaId replica) const {
  return with_free_vocabulary(bound_->host_bytes(packs, lengths, replica), layout(), packs);
}

TaskBytes PackFlowStages::host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                     ReplicaId replica) const {
  require_countable(cost, layout.layer_begin.back(),
                    static_cast<double>(total_tokens(lengths).count()));
  const HeldPacks held(packs, lengths, replica);
  const std::vector<LayerWidths> widths = widths_of(cost);
  const auto offloaded = [&](const LayerRun& run) {
    const std::int64_t row =
        cost.row_bytes > 0 ? whole_bytes(cost.row_bytes) : widths[run.kind].row();
    return run.offloads() ? row : 0;
  };
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const std::int64_t row = sum_of(runs_of(*this, widths, StageId(s)), offloaded);
    bytes.rows.push_back(per_pack(held.packs().forward, row));
    bytes.kv.push_back(per_sequence(lengths, 0));
    bytes.dkv.push_back(bytes.kv.back());
    bytes.forward_transient.push_back(per_pack(packs.forward, 0));
    bytes.backward_transient.push_back(per_pack(packs.backward, 0));
    if (!splits_backward()) continue;
    for (auto* split : {&bytes.weight_operands, &bytes.input_transient, &bytes.weight_transient})
      split->push_back(per_pack(packs.backward, 0));
  }
  bytes.forward_input = per_pack(packs.forward, 0);
  bytes.backward_input = per_pack(packs.backward, 0);
  return bytes;
}

}  // namespace slimpack
