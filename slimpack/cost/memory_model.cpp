#include "slimpack/cost/memory_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/layer_transients.h"
#include "slimpack/cost/layer_widths.h"
#include "slimpack/plan/regroup.h"

namespace slimpack {
namespace {

/// Throws if the bytes of `tokens` tokens in `layers` layers could not be added up in 64 bits.
void require_countable(const Costs& cost, std::int32_t layers, double tokens) {
  constexpr double kMostBytes = 0x1p62;
  constexpr double kStores = 16;  // no rank holds more of a layer at once: rows, keys, operands …
  const ModelShape& s = cost.shape;
  const auto width = static_cast<double>(
      8 * (s.hidden_size + 2 * s.q_width() + 2 * s.kv_width() + 3 * s.intermediate_size));
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

/// A replica's share of a merged pack, as a pack of shorter sequences.
MicroPack own_share(const MicroPack& pack, const SequenceLengths& lengths) {
  MicroPack out{{}, pack.replicas};
  for (const Slice& s : pack.slices) {
    const std::int64_t end = s.end.count();
    const bool last = s.end == lengths[s.sequence.index()];
    out.slices.push_back({s.sequence, s.begin / pack.replicas,
                          Tokens(last ? share_of(end, pack.replicas) : end / pack.replicas)});
  }
  return out;
}

/// A replica's packs, with its shares of merged packs and of their sequences' lengths.
struct HeldPacks {
  PackPlan packs;
  SequenceLengths lengths;
};

HeldPacks held_packs(const PackPlan& packs, const SequenceLengths& lengths) {
  HeldPacks held{packs, lengths};
  for (auto* pass : {&held.packs.forward, &held.packs.backward})
    for (MicroPack& pack : *pass)
      if (pack.replicas > 1) pack = own_share(pack, lengths);
  for (const MicroPack& pack : packs.forward)
    if (pack.replicas > 1)
      for (const Slice& s : pack.slices)
        held.lengths[s.sequence.index()] =
            Tokens(share_of(lengths[s.sequence.index()].count(), pack.replicas));
  return held;
}

/// Neighbouring layers of a stage that are alike.
struct LayerRun {
  Recompute recompute = Recompute::kElementwise;
  /// The layer before each of these offloads its rows. They travel while one of these layers runs:
  /// to the host in forward, back in backward.
  bool after_offload = false;
  std::int64_t layers = 0;

  [[nodiscard]] bool offloads() const { return recompute == Recompute::kOffload; }
};

std::vector<LayerRun> runs_of(const RecomputingCosts& cost, const StageLayout& layout,
                              StageId stage) {
  std::vector<LayerRun> runs;
  for (std::int32_t l = layout.layer_begin[stage.index()];
       l < layout.layer_begin[stage.index() + 1]; ++l) {
    const Recompute recompute = recompute_of(cost.recompute, static_cast<std::size_t>(l));
    const bool after_offload = !runs.empty() && runs.back().offloads();
    if (runs.empty() || runs.back().recompute != recompute ||
        runs.back().after_offload != after_offload)
      runs.push_back({recompute, after_offload, 0});
    ++runs.back().layers;
  }
  return runs;
}

std::int64_t kept_rows(const LayerWidths& w, const std::vector<LayerRun>& runs) {
  std::int64_t bytes = 0;
  for (const LayerRun& run : runs) bytes += run.layers * w.kept(run.recompute);
  return bytes;
}

std::int64_t offloading_layers(const std::vector<LayerRun>& runs) {
  std::int64_t layers = 0;
  for (const LayerRun& run : runs) layers += run.offloads() ? run.layers : 0;
  return layers;
}

/// Bytes of a layer by its recomputation and by pack. Empty for a recomputation that no layer has.
using TransientsByRecompute = std::array<std::vector<std::int64_t>, kRecomputations>;

/// Bytes by pack. They are the same on every stage, except for the recomputation of its layers.
struct PackTransients {
  /// Of a layer. `input`: of a backward that puts its weight gradients off.
  TransientsByRecompute forward, backward, input;
  std::vector<std::int64_t> head;
  std::vector<Bytes> weights;           ///< by backward pack, of its weight gradients
  std::vector<std::int64_t> opened_kv;  ///< by forward pack: K and V of a layer
  std::vector<LayerStores> stores;      ///< by backward pack: of a layer
  std::vector<std::int64_t> ended;  ///< by backward pack: rows of the forward packs that it frees
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
  for (std::size_t p = 0; p < held.packs.backward.size(); ++p) {
    const MicroPack& pack = held.packs.backward[p];
    // A fetched row belongs to this MicroPack alone.
    const bool views = rows[p] == RowsFrom::kViews && recompute != Recompute::kOffload;
    const PutOffWidths put_off = split ? put_off_widths(w, recompute, views) : PutOffWidths{};
    const std::int64_t copied = rows[p] == RowsFrom::kCopies ? w.joined(recompute) : 0;
    out.push_back(layer_backward_transient(w, pack, held.lengths, recompute, put_off) +
                  pack.tokens().count() * copied);
  }
  return out;
}

PackTransients pack_transients(const LayerWidths& w, const RecomputingCosts& cost,
                               const PackPlan& packs, const HeldPacks& held) {
  const SequenceLengths& lengths = held.lengths;
  PackTransients out;
  for (const MicroPack& pack : held.packs.forward) {
    std::int64_t& opened = out.opened_kv.emplace_back(0);
    for (const Slice& s : pack.slices)
      if (s.begin == Tokens(0)) opened += 2 * w.k * lengths[s.sequence.index()].count();
  }
  const auto segments = regroup(held.packs);
  std::vector<RowsFrom> rows;
  std::vector<std::size_t> last_use(packs.forward.size());
  for (std::size_t p = 0; p < packs.backward.size(); ++p) {
    const MicroPack& pack = held.packs.backward[p];
    const std::int64_t tokens = pack.tokens().count();
    rows.push_back(rows_from(held.packs, segments[p]));
    LayerStores& stores = out.stores.emplace_back();
    for (const Slice& s : pack.slices) {
      stores.open(w, s, lengths[s.sequence.index()]);
      stores.close(w, s, lengths[s.sequence.index()]);
    }
    out.weights.emplace_back(weight_gradient_transient(w, tokens));
    out.head.push_back(head_transient(w, tokens, head_block(w.shape)) +
                       (rows[p] == RowsFrom::kCopies ? tokens * w.hidden : 0));
    for (const RowSegment& segment : segments[p]) last_use[segment.forward.index()] = p;
  }
  out.ended.resize(packs.backward.size());
  for (std::size_t f = 0; f < last_use.size(); ++f)
    out.ended[last_use[f]] += held.packs.forward[f].tokens().count();
  for (const Recompute recompute : all_recomputations()) {
    const auto r = static_cast<std::size_t>(recompute);
    const bool used = cost.recompute.empty()
                          ? recompute == Recompute::kElementwise
                          : std::ranges::find(cost.recompute, recompute) != cost.recompute.end();
    if (!used) continue;
    out.forward[r] = forward_transients(w, held.packs, recompute);
    out.backward[r] = backward_transients(w, held, rows, recompute, false);
    if (cost.weight_gradient != EdgeTime())
      out.input[r] = backward_transients(w, held, rows, recompute, true);
  }
  return out;
}

/// The peak beyond the stores as they are after the action. Layers that have not run yet lack their
/// rows, keys and values. So the last layer of a run of like layers has the run's peak.
std::int64_t stage_forward_transient(const LayerWidths& w, const PackTransients& transients,
                                     const std::vector<LayerRun>& runs, std::size_t pack,
                                     std::int64_t tokens) {
  std::int64_t most = 0;
  std::int64_t to_come = 0;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const auto r = static_cast<std::size_t>(run->recompute);
    const std::int64_t leaving = run->after_offload ? tokens * w.row : 0;
    most = std::max(most, transients.forward[r][pack] + leaving - to_come);
    to_come += run->layers * (tokens * w.kept(run->recompute) + transients.opened_kv[pack]);
  }
  return most;
}

/// The peak beyond the stores as they were before the action. The last layer runs first. Each layer
/// opens its dK and dV, and frees what has ended when it is done. Within a run of like layers the
/// bytes only rise or only fall, so the run's first or last layer has its peak.
/// `layer`: transients of layers, by recomputation and pack; `fetched`: rows of an offloading
/// layer; `left`: operands that each layer leaves; `freed`: what the head frees before any layer.
std::int64_t stage_backward_transient(const LayerWidths& w, const PackTransients& transients,
                                      const TransientsByRecompute& layer,
                                      const std::vector<LayerRun>& runs, std::size_t pack,
                                      std::int64_t fetched, std::int64_t left, std::int64_t freed) {
  const LayerStores& stores = transients.stores[pack];
  std::int64_t most = 0;
  std::int64_t held = -freed;  // by the stores, before the layer
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const std::int64_t transient = stores.opened +
                                   layer[static_cast<std::size_t>(run->recompute)][pack] +
                                   (run->after_offload ? fetched : 0);
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

/// TaskBytes with rows of cost.row_bytes per token and layer, scaled by what the layer keeps. Only
/// offloaded rows in transit and the operands of a split backward count besides, scaled likewise.
TaskBytes bytes_of_rows(const RecomputingCosts& cost, const StageLayout& layout,
                        const HeldPacks& held) {
  const LayerWidths w(cost.shape, cost.dtype, cost.tp);
  TaskBytes bytes;
  const std::vector<Bytes> no_sequence(held.lengths.size());
  const std::vector<Bytes> no_forward(held.packs.forward.size());
  const std::vector<Bytes> no_backward(held.packs.backward.size());
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const auto proportion = [&](std::int64_t bytes_of_model) {
      return cost.row_bytes * static_cast<double>(bytes_of_model) / static_cast<double>(w.row);
    };
    const std::vector<LayerRun> runs = runs_of(cost, layout, StageId(s));
    const double row = proportion(kept_rows(w, runs));
    // In transit to host memory or back: a layer's rows beside those of the layer that runs.
    const auto travelling = static_cast<double>(std::min<std::int64_t>(2, offloading_layers(runs)));
    const std::int64_t on_their_way = whole_bytes(travelling * cost.row_bytes);
    bytes.rows.push_back(per_pack(held.packs.forward, whole_bytes(row)));
    bytes.kv.push_back(no_sequence);
    bytes.dkv.push_back(no_sequence);
    bytes.forward_transient.push_back(per_pack(held.packs.forward, on_their_way));
    bytes.backward_transient.push_back(per_pack(held.packs.backward, on_their_way));
    if (cost.weight_gradient == EdgeTime()) continue;
    const double operands = proportion(layout.layers(StageId(s)) * w.weight_operands());
    bytes.weight_operands.push_back(per_pack(held.packs.backward, whole_bytes(operands)));
    bytes.input_transient.push_back(
        per_pack(held.packs.backward, whole_bytes(operands) + on_their_way));
    bytes.weight_transient.push_back(no_backward);
  }
  bytes.forward_input = no_forward;
  bytes.backward_input = no_backward;
  return bytes;
}

/// Adds a stage's rows, keys and values, and the transients of its actions.
void add_stage(TaskBytes& bytes, const LayerWidths& w, const HeldPacks& held,
               const PackTransients& transients, const std::vector<LayerRun>& runs, bool last,
               bool split) {
  std::int64_t layers = 0;
  for (const LayerRun& run : runs) layers += run.layers;
  bytes.kv.push_back(per_sequence(held.lengths, layers * 2 * w.k));
  bytes.dkv.push_back(per_sequence(held.lengths, layers * w.gradients()));
  auto& rows = bytes.rows.emplace_back();
  auto& forward = bytes.forward_transient.emplace_back();
  const std::int64_t kept = kept_rows(w, runs);
  for (std::size_t p = 0; p < held.packs.forward.size(); ++p) {
    // The last stage's output is the head's input, which is kept with the rows.
    const std::int64_t tokens = held.packs.forward[p].tokens().count();
    const std::int64_t head = last ? tokens * w.hidden : 0;
    rows.emplace_back(tokens * kept + head);
    forward.emplace_back(stage_forward_transient(w, transients, runs, p, tokens) - head);
  }
  const auto backward = [&](const TransientsByRecompute& layer, std::int64_t left_by_token) {
    std::vector<Bytes> out;
    for (std::size_t p = 0; p < held.packs.backward.size(); ++p) {
      const std::int64_t tokens = held.packs.backward[p].tokens().count();
      const std::int64_t freed = last ? transients.ended[p] * w.hidden : 0;
      const std::int64_t fetched = tokens * w.row;
      const std::int64_t stage = stage_backward_transient(w, transients, layer, runs, p, fetched,
                                                          tokens * left_by_token, freed);
      // The last layer's rows are fetched while the head runs.
      const std::int64_t head = transients.head[p] + (runs.back().offloads() ? fetched : 0);
      out.emplace_back(last ? std::max(stage, head) : stage);
    }
    return out;
  };
  bytes.backward_transient.push_back(backward(transients.backward, 0));
  if (!split) return;
  bytes.weight_operands.push_back(per_pack(held.packs.backward, layers * w.weight_operands()));
  bytes.input_transient.push_back(backward(transients.input, w.weight_operands()));
  bytes.weight_transient.push_back(transients.weights);
}

}  // namespace

Tokens head_block(const ModelShape& shape) {
  constexpr std::int64_t kLogits = std::int64_t{1} << 20;  // per block: 4 MiB in fp32
  return Tokens(std::clamp<std::int64_t>(kLogits / shape.vocab_size, 64, 4096));
}

Bytes sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout, StageId stage,
                     Tokens tokens) {
  require_countable(cost, layout.layers(stage), static_cast<double>(tokens.count()));
  const LayerWidths w(cost.shape, cost.dtype, cost.tp);
  const std::int64_t rows = kept_rows(w, runs_of(cost, layout, stage));
  if (cost.row_bytes > 0)
    return Bytes(
        whole_bytes(cost.row_bytes * static_cast<double>(rows) / static_cast<double>(w.row)) *
        tokens.count());
  return Bytes((rows + layout.layers(stage) * 2 * w.k) * tokens.count());
}

TaskBytes task_bytes(const RecomputingCosts& cost, const StageLayout& layout, const PackPlan& packs,
                     const SequenceLengths& lengths) {
  require_countable(cost, layout.layer_begin.back(),
                    static_cast<double>(total_tokens(lengths).count()));
  const HeldPacks held = held_packs(packs, lengths);
  if (cost.row_bytes > 0) return bytes_of_rows(cost, layout, held);
  const LayerWidths w(cost.shape, cost.dtype, cost.tp);
  const PackTransients transients = pack_transients(w, cost, packs, held);
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    add_stage(bytes, w, held, transients, runs_of(cost, layout, StageId(s)),
              s == layout.stages() - 1, cost.weight_gradient != EdgeTime());
  bytes.forward_input = per_pack(held.packs.forward, w.hidden);
  bytes.backward_input = per_pack(held.packs.backward, w.hidden);
  return bytes;
}

TaskBytes host_bytes(const RecomputingCosts& cost, const StageLayout& layout, const PackPlan& packs,
                     const SequenceLengths& lengths) {
  require_countable(cost, layout.layer_begin.back(),
                    static_cast<double>(total_tokens(lengths).count()));
  const HeldPacks held = held_packs(packs, lengths);
  const LayerWidths w(cost.shape, cost.dtype, cost.tp);
  const std::int64_t row = cost.row_bytes > 0 ? whole_bytes(cost.row_bytes) : w.row;
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const std::int64_t layers = offloading_layers(runs_of(cost, layout, StageId(s)));
    bytes.rows.push_back(per_pack(held.packs.forward, layers * row));
    bytes.kv.push_back(per_sequence(lengths, 0));
    bytes.dkv.push_back(bytes.kv.back());
    bytes.forward_transient.push_back(per_pack(packs.forward, 0));
    bytes.backward_transient.push_back(per_pack(packs.backward, 0));
  }
  bytes.forward_input = per_pack(packs.forward, 0);
  bytes.backward_input = per_pack(packs.backward, 0);
  return bytes;
}

ModelState model_state(const Costs& cost, const StageLayout& layout, StageId stage,
                       std::int32_t replicas) {
  const std::int64_t held = share_of(stage_parameters(cost.shape, layout, stage), cost.tp);
  const std::int64_t element = element_bytes(cost.dtype);
  const std::int64_t accumulator = accumulator_bytes(cost.dtype);
  const std::int64_t optimizer = 2 * accumulator + (element == accumulator ? 0 : accumulator);
  return {Bytes(held * element), Bytes(held * accumulator),
          Bytes(share_of(held, replicas) * optimizer)};
}

Bytes model_state_bytes(const Costs& cost, const StageLayout& layout, StageId stage,
                        std::int32_t replicas) {
  return model_state(cost, layout, stage, replicas).total();
}

}  // namespace slimpack
