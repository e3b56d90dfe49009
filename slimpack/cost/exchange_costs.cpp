// The costs of a context exchange: time and bytes of its two actions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "slimpack/base/error.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/attention_memory.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/reduction.h"

namespace slimpack {
namespace {

/// Tokens whose tensors travel.
struct ExchangedSizes {
  double queries, keys;

  /// Bytes in one layer: to the taker queries, keys and values, and backward the queries' output,
  /// its gradient and log-sum-exp; back output and log-sum-exp, or the gradients of what came.
  [[nodiscard]] double bytes_to_taker(const LayerWidths& w, Pass pass) const {
    const auto q = static_cast<double>(w.q), lse = static_cast<double>(w.lse);
    return queries * (pass == Pass::kForward ? q : 3 * q + lse) + keys_bytes(w);
  }
  [[nodiscard]] double bytes_to_giver(const LayerWidths& w, Pass pass) const {
    const auto q = static_cast<double>(w.q), lse = static_cast<double>(w.lse);
    return pass == Pass::kForward ? queries * (q + lse) : queries * q + keys_bytes(w);
  }

 private:
  [[nodiscard]] double keys_bytes(const LayerWidths& w) const {
    return keys * 2 * static_cast<double>(w.k);
  }
};

class ExchangeCosts {
 public:
  ExchangeCosts(ReplicaPacks& replica, const BoundStages& bound, ReplicaId id)
      : replica_(replica), bound_(bound), cost_(bound.cost), layout_(bound.layout), id_(id) {
    for (const MicroPack& pack : replica.packs.forward)
      for (const Slice& slice : pack.slices) {
        lengths_.resize(std::max(lengths_.size(), slice.sequence.index() + 1));
        lengths_[slice.sequence.index()] = std::max(lengths_[slice.sequence.index()], slice.end);
      }
  }

  void add(const ContextExchange& exchange) {
    const MicroPack& pack = pack_of(exchange.giver);
    const std::size_t slice = exchanged_slice(pack);
    const Tokens queries = pack.slices[slice].length();
    const ExchangedSizes sizes{static_cast<double>(queries.count()),
                               static_cast<double>(exchange.keys.count())};
    double giver = 0, taker = 0;
    const std::int32_t layers = exchanging_layers(layout_, exchange);
    for (std::int32_t l = 0; l < layers; ++l) {
      const LayerTime time = layer_time(exchange, sizes, l);
      giver += time.giver;
      taker += time.taker;
    }
    add_time(exchange.giver, giver);
    add_time(exchange.taker, taker);
    if (replica_.bytes.rows.empty()) return;
    add_bytes(exchange.giver, {true, slice, queries, exchange.keys}, layers, 0);
    // On GPUs ranks are processes: the taker gets copies, for which it makes room before its own
    // attention. What processes without GPUs copy counts nowhere (StageTable::add_in_flight).
    const double copies = cost_.device.gpu ? sizes.bytes_to_taker(widths(exchange.taker.stage, 0),
                                                                  exchange.taker.pass)
                                           : 0;
    add_bytes(exchange.taker, {false, slice, queries, exchange.keys}, layers, copies);
  }

 private:
  /// Nanoseconds by which the exchange changes one layer's time.
  struct LayerTime {
    double giver, taker;
  };

  [[nodiscard]] std::size_t kind(StageId stage, std::int32_t layer) const {
    const std::int32_t first = layout_.layer_begin[stage.index()];
    return cost_.shape.kind_of(static_cast<std::size_t>(first + layer));
  }
  [[nodiscard]] LayerWidths widths(StageId stage, std::int32_t layer) const {
    return {cost_.shape, kind(stage, layer), cost_.dtype, cost_.tp};
  }
  /// Nanoseconds of a query-key pair.
  [[nodiscard]] double per_pair(const Action& action, std::int32_t layer) const {
    const LayerCosts& costs = cost_.kinds[kind(action.stage, layer)];
    return (action.pass == Pass::kForward ? costs.forward : costs.backward).per_pair /
           speed_of(action.stage);
  }
  [[nodiscard]] double transfer(double bytes_of_rank) const {
    return cost_.transfer.latency + cost_.transfer.per_byte * bytes_of_rank * cost_.tp;
  }

  [[nodiscard]] LayerTime layer_time(const ContextExchange& exchange, const ExchangedSizes& sizes,
                                     std::int32_t layer) const {
    const Action& giver = exchange.giver;
    const LayerWidths w = widths(giver.stage, layer);
    const double moved = sizes.queries * sizes.keys;
    const double off = moved * per_pair(giver, layer);
    const double on = moved * per_pair(exchange.taker, layer);
    const double giver_own = causal_pairs(pack_of(giver)) * per_pair(giver, layer) - off;
    const double taker_own =
        causal_pairs(pack_of(exchange.taker)) * per_pair(exchange.taker, layer);
    const double arrival = std::max(taker_own, transfer(sizes.bytes_to_taker(w, giver.pass)));
    const double result = arrival + on + transfer(sizes.bytes_to_giver(w, giver.pass));
    return {std::max(giver_own, result) - giver_own - off, arrival - taker_own + on};
  }

  [[nodiscard]] double speed_of(StageId stage) const {
    return bound_.replication.speed_of(id_, layout_.placement.rank_of(stage));
  }

  /// Nanoseconds that the action takes longer if its attention takes `nanos` longer. With ZeRO-2
  /// and 3 an action takes at least as long as the state that travels for it.
  [[nodiscard]] double longer_by(const Action& action, double nanos) const {
    const Pass pass = action.pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
    const double floor =
        shared_state_traffic(cost_, layout_, action.stage, bound_.replication.replicas, pass);
    if (floor == 0) return nanos;
    const PackCost stage = stage_cost(bound_, action.stage, pass);
    double own = stage.per_pack;
    for (const Slice& slice : pack_of(action).slices) own += stage(slice);
    own /= speed_of(action.stage);
    return std::max(own + nanos, floor) - std::max(own, floor);
  }

  void add_time(const Action& action, double nanos) {
    const auto more = Nanos(static_cast<std::int64_t>(std::llround(longer_by(action, nanos))));
    const std::size_t s = action.stage.index(), pack = action.pack.index();
    const auto add_to = [&](std::vector<std::vector<Nanos>>& times) {
      if (!times.empty()) times[s][pack] = std::max(Nanos(1), times[s][pack] + more);
    };
    if (action.pass == Pass::kForward) return add_to(replica_.times.forward);
    add_to(replica_.times.backward);
    add_to(replica_.times.input_gradient);
  }

  [[nodiscard]] const MicroPack& pack_of(const Action& action) const {
    return replica_.packs.of(action.pass)[action.pack.index()];
  }

  /// By how much the exchange changes the peak of the stage's layers, at most. `layers` exchange:
  /// others have the peaks that they have without.
  [[nodiscard]] std::int64_t more_in_layers(const Action& action, const ExchangeSide& exchange,
                                            std::int32_t layers, bool splits) const {
    const MicroPack& pack = pack_of(action);
    std::optional<std::int64_t> more;
    if (layers < layout_.layers(action.stage)) more = 0;
    for (std::int32_t l = 0; l < layers; ++l) {
      const LayerWidths w = widths(action.stage, l);
      const Recompute recompute = bound_.recompute_of(bound_.first_layer(action.stage) + l);
      const PutOffWidths put_off =
          splits ? put_off_widths(w, recompute, /*views=*/false) : PutOffWidths{};
      const auto peak = [&](const ExchangeSide* with) {
        return action.pass == Pass::kForward
                   ? layer_forward_transient(w, pack, recompute, with)
                   : layer_backward_transient(w, pack, lengths_, recompute, put_off, with);
      };
      more = std::max(more.value_or(INT64_MIN), peak(&exchange) - peak(nullptr));
    }
    return *more;
  }

  void add_bytes(const Action& action, const ExchangeSide& exchange, std::int32_t layers,
                 double copies) {
    const std::size_t s = action.stage.index(), pack = action.pack.index();
    const auto add_to = [&](std::vector<std::vector<Bytes>>& peaks, bool splits) {
      if (peaks.empty()) return;
      const std::int64_t more = more_in_layers(action, exchange, layers, splits);
      peaks[s][pack] = std::max(Bytes(0), peaks[s][pack] + Bytes(more + std::llround(copies)));
    };
    if (action.pass == Pass::kForward) return add_to(replica_.bytes.forward_transient, false);
    add_to(replica_.bytes.backward_transient, false);
    add_to(replica_.bytes.input_transient, true);
  }

  ReplicaPacks& replica_;
  const BoundStages& bound_;
  const Costs& cost_;
  const StageLayout& layout_;
  ReplicaId id_;
  SequenceLengths lengths_;
};

}  // namespace

void StageTable::add_exchanges(ReplicaPacks& replica, std::span<const ContextExchange> exchanges,
                               ReplicaId id) const {
  if (exchanges.empty()) return;
  SLIMPACK_CHECK(abilities().exchanges_attention, "layers that cannot exchange attention");
  ExchangeCosts costs(replica, *bound_, id);
  for (const ContextExchange& exchange : exchanges) costs.add(exchange);
}

}  // namespace slimpack
