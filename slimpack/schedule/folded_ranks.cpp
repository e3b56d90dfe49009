#include "slimpack/schedule/folded_ranks.h"

#include <algorithm>
#include <type_traits>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// Rounds of equally many packs if that goes (SlimPipe's public code), else as even as it goes.
std::int64_t rounds_of(std::int64_t packs, std::int64_t ranks) {
  for (std::int64_t round = ranks; round < std::min(2 * ranks, ranks + kChannelSlots); ++round)
    if (packs % round == 0) return packs / round;
  return std::max<std::int64_t>(1, packs / ranks);
}

/// The pack that `of` names, with the sequences of a folded rank. Empty if the replica lacks it.
MicroPack pack_of(const std::vector<MicroPack>& packs, FoldedPack of,
                  std::int32_t stages_per_rank) {
  if (of.pack.index() >= packs.size()) return {};
  MicroPack pack = packs[of.pack.index()];
  for (Slice& slice : pack.slices)
    slice.sequence = SequenceId(slice.sequence.index() * static_cast<std::size_t>(stages_per_rank) +
                                static_cast<std::size_t>(of.local_stage));
  return pack;
}

/// A value for each folded pack. `of_stage(l)`: the packs of local stage l. Packs that it lacks are
/// free.
template <class OfStage>
auto by_folded(const FoldedOrder& order, const OfStage& of_stage) {
  std::decay_t<decltype(of_stage(0))> out;
  out.reserve(order.all().size());
  for (const FoldedPack& folded : order.all()) {
    const auto& packs = of_stage(folded.local_stage);
    const std::size_t p = folded.pack.index();
    if (p < packs.size())
      out.push_back(packs[p]);
    else
      out.emplace_back();
  }
  return out;
}

/// Values that are the same on all stages, by folded pack.
template <class Value>
std::vector<Value> by_folded(const std::vector<Value>& by_pack, const FoldedOrder& order) {
  return by_folded(order, [&](std::int32_t) -> const std::vector<Value>& { return by_pack; });
}

/// [stage][pack] → [rank][folded pack]. Empty if nothing is known.
template <class Value>
std::vector<std::vector<Value>> by_rank(const std::vector<std::vector<Value>>& by_stage,
                                        const FoldedOrder& order, std::int32_t ranks) {
  std::vector<std::vector<Value>> out;
  for (std::int32_t r = 0; r < ranks && !by_stage.empty(); ++r)
    out.push_back(by_folded(order, [&](std::int32_t local) -> const std::vector<Value>& {
      return by_stage[static_cast<std::size_t>(local * ranks + r)];
    }));
  return out;
}

/// [stage][sequence] → [rank][sequence · stages_per_rank + local stage].
std::vector<std::vector<Bytes>> stores_by_rank(const std::vector<std::vector<Bytes>>& by_stage,
                                               std::int32_t ranks, std::int32_t stages_per_rank) {
  std::vector<std::vector<Bytes>> out;
  for (std::int32_t r = 0; r < ranks && !by_stage.empty(); ++r) {
    auto& of_rank = out.emplace_back();
    for (std::size_t q = 0; q < by_stage.front().size(); ++q)
      for (std::int32_t l = 0; l < stages_per_rank; ++l)
        of_rank.push_back(by_stage[static_cast<std::size_t>(l * ranks + r)][q]);
  }
  return out;
}

TaskTimes folded_times(const TaskTimes& times, const FoldedOrders& orders) {
  TaskTimes out;
  out.forward = by_rank(times.forward, orders.forward, orders.ranks);
  out.backward = by_rank(times.backward, orders.backward, orders.ranks);
  out.input_gradient = by_rank(times.input_gradient, orders.backward, orders.ranks);
  out.weight_gradient = by_rank(times.weight_gradient, orders.backward, orders.ranks);
  out.forward_transfer = by_folded(times.forward_transfer, orders.forward);
  out.backward_transfer = by_folded(times.backward_transfer, orders.backward);
  out.reduce = times.reduce;
  out.reduce_after_weights = times.reduce_after_weights;
  out.step_end = times.step_end;
  return out;
}

TaskBytes folded_bytes(const TaskBytes& bytes, const FoldedOrders& orders) {
  TaskBytes out;
  out.rows = by_rank(bytes.rows, orders.forward, orders.ranks);
  out.kv = stores_by_rank(bytes.kv, orders.ranks, orders.stages_per_rank);
  out.dkv = stores_by_rank(bytes.dkv, orders.ranks, orders.stages_per_rank);
  out.forward_transient = by_rank(bytes.forward_transient, orders.forward, orders.ranks);
  out.backward_transient = by_rank(bytes.backward_transient, orders.backward, orders.ranks);
  out.weight_operands = by_rank(bytes.weight_operands, orders.backward, orders.ranks);
  out.input_transient = by_rank(bytes.input_transient, orders.backward, orders.ranks);
  out.weight_transient = by_rank(bytes.weight_transient, orders.backward, orders.ranks);
  out.forward_input = by_folded(bytes.forward_input, orders.forward);
  out.backward_input = by_folded(bytes.backward_input, orders.backward);
  return out;
}

/// The forwards that each folded backward needs: up to the last forward of the last pack that its
/// own pack needs.
std::vector<std::int32_t> own_needs(const std::vector<std::int32_t>& needed,
                                    const FoldedOrders& orders) {
  std::vector<std::int32_t> out;
  for (const FoldedPack& of : orders.backward.all()) {
    const std::int32_t packs = needed[of.pack.index()];
    const FoldedPack last{PackId(packs - 1), orders.stages_per_rank - 1};
    out.push_back(packs == 0 ? 0 : orders.forward.place(last).value() + 1);
  }
  return out;
}

}  // namespace

FoldedOrder::FoldedOrder(Pass pass, const std::vector<std::int32_t>& batch_ends, std::int32_t ranks,
                         std::int32_t stages_per_rank)
    : packs_(batch_ends.empty() ? 0 : batch_ends.back()) {
  place_.resize(static_cast<std::size_t>(packs_ * stages_per_rank));
  order_.reserve(place_.size());
  std::int32_t first = 0;
  for (const std::int32_t end : batch_ends) {
    const std::int64_t packs = end - first;
    const std::int64_t rounds = rounds_of(packs, ranks);
    for (std::int64_t i = 0; i < rounds; ++i)
      add_round(pass, first + static_cast<std::int32_t>(i * packs / rounds),
                first + static_cast<std::int32_t>((i + 1) * packs / rounds), stages_per_rank);
    first = end;
  }
}

void FoldedOrder::add_round(Pass pass, std::int32_t begin, std::int32_t end,
                            std::int32_t stages_per_rank) {
  largest_round_ = std::max(largest_round_, end - begin);
  for (std::int32_t i = 0; i < stages_per_rank; ++i) {
    const std::int32_t local = pass == Pass::kForward ? i : stages_per_rank - 1 - i;
    for (std::int32_t p = begin; p < end; ++p) {
      place_[static_cast<std::size_t>(local * packs_ + p)] =
          static_cast<std::int32_t>(order_.size());
      order_.push_back({PackId(p), local});
    }
  }
}

PackId FoldedOrder::place(FoldedPack of) const {
  return PackId(place_[static_cast<std::size_t>(of.local_stage * packs_) + of.pack.index()]);
}

bool has_rounds(std::int32_t packs, std::int32_t ranks) {
  const std::int32_t rounds = packs / ranks;
  return rounds > 0 && packs <= rounds * (ranks + kChannelSlots - 1);
}

Batches batches_of(const std::vector<std::int32_t>& needed, std::int32_t forwards,
                   std::int32_t ranks) {
  const auto backwards = static_cast<std::int32_t>(needed.size());
  Batches batches;
  std::int32_t f = 0, b = 0;  // the ends of the last batch
  const auto fits = [&](std::int32_t packs) { return has_rounds(packs, ranks); };
  for (std::int32_t end = 1; end < backwards; ++end) {
    const std::int32_t run = needed[static_cast<std::size_t>(end) - 1];
    if (needed[static_cast<std::size_t>(end)] == run) continue;
    if (!fits(run - f) || !fits(end - b) || !fits(forwards - run) || !fits(backwards - end))
      continue;
    batches.forward.push_back(f = run);
    batches.backward.push_back(b = end);
  }
  if (f < forwards) batches.forward.push_back(forwards);
  if (b < backwards) batches.backward.push_back(backwards);
  return batches;
}

FoldedOrders::FoldedOrders(const Batches& batches, std::int32_t of_ranks, std::int32_t of_stages)
    : forward(Pass::kForward, batches.forward, of_ranks, of_stages),
      backward(Pass::kBackward, batches.backward, of_ranks, of_stages),
      ranks(of_ranks),
      stages_per_rank(of_stages) {}

ReplicaPacks folded(const ReplicaPacks& replica, const FoldedOrders& orders) {
  ReplicaPacks out;
  for (const Pass pass : kWholePasses)
    for (const FoldedPack& of : orders.of(pass).all())
      out.packs.of(pass).push_back(pack_of(replica.packs.of(pass), of, orders.stages_per_rank));
  out.times = folded_times(replica.times, orders);
  out.bytes = folded_bytes(replica.bytes, orders);
  return out;
}

// Ranks that are all stuck lead to a contradiction. The rank with the fewest forwards has its input
// and, unless it is the last, a slot; so it lacks memory, or waits for a slot of the first rank, or
// of ranks in between each of which is as many slots ahead as a channel has: and as a round is
// shorter than that times the ranks, one of these lacks memory. Either way all ranks have run the
// forwards that the backward of the rank with the fewest backwards needs, and as many more
// backwards as a round is longer than the slots. That rank has its input. So it waits for a slot,
// and is the first rank; and the last, which is no further ahead, has its input and forwards, too.
ForwardNeeds folded_needs(const std::vector<std::int32_t>& needed, const FoldedOrders& orders,
                          std::int32_t slots) {
  ForwardNeeds needs;
  needs.running = needs.arriving = own_needs(needed, orders);
  const std::size_t count = needs.running.size();
  for (std::size_t b = 1; b < count; ++b) {
    needs.running[b] = std::max(needs.running[b], needs.running[b - 1]);
    const std::size_t back = count - 1 - b;
    needs.arriving[back] = std::min(needs.arriving[back], needs.arriving[back + 1]);
  }
  const auto beyond = [&](Pass pass) {
    return std::max(0, orders.of(pass).largest_round() - slots);
  };
  const auto all = static_cast<std::int32_t>(orders.forward.all().size());
  for (std::size_t b = 0; b < count; ++b) {
    const std::size_t later = b + static_cast<std::size_t>(beyond(Pass::kBackward));
    needs.fitting.push_back(
        std::min(all, needs.running[std::min(later, count - 1)] + beyond(Pass::kForward)));
  }
  return needs;
}

Schedule unfolded(const Schedule& folded, const FoldedOrders& orders) {
  Schedule out{{}, StagePlacement::looped(orders.ranks, orders.stages_per_rank)};
  for (std::size_t r = 0; r < folded.ranks.size(); ++r) {
    auto& list = out.ranks.emplace_back();
    list.reserve(folded.ranks[r].size());
    for (const Action& action : folded.ranks[r]) {
      const FoldedPack of = orders.of(action.pass)[action.pack];
      const auto stage = of.local_stage * orders.ranks + static_cast<std::int32_t>(r);
      list.push_back({StageId(stage), action.pass, of.pack});
    }
  }
  return out;
}

FoldedLinks::FoldedLinks(const FoldedOrder& order, Pass pass, std::int32_t ranks,
                         std::int32_t slots)
    : source(static_cast<std::size_t>(ranks)), target(source.size()) {
  const std::int32_t step = pass == Pass::kForward ? 1 : -1;
  std::int32_t last = 0;  // local stage
  for (const FoldedPack& of : order.all()) last = std::max(last, of.local_stage);
  const std::int32_t stages = (last + 1) * ranks;
  const auto link = [&](const FoldedPack& of, std::int32_t stage) -> FoldedLink {
    if (stage < 0 || stage >= stages) return {};
    const std::int32_t local = stage / ranks, oldest = of.pack.value() - slots;
    const std::int32_t begun = oldest < 0 ? 0 : order.place({PackId(oldest), local}).value() + 1;
    return {stage % ranks, order.place({of.pack, local}).value(), begun};
  };
  for (std::int32_t r = 0; r < ranks; ++r)
    for (const FoldedPack& of : order.all()) {
      const std::int32_t stage = of.local_stage * ranks + r;
      source[static_cast<std::size_t>(r)].push_back(link(of, stage - step));
      target[static_cast<std::size_t>(r)].push_back(link(of, stage + step));
    }
}

}  // namespace slimpack
