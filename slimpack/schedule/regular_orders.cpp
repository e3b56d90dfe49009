// Regular orders: 1F1B and what follows from it, ZB-V and the wait-free cyclic order.
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/folded_ranks.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// The packs that a stage has run in each pass of a wait-free cyclic order.
struct Progress {
  std::size_t forward = 0;
  std::size_t backward = 0;
  std::int64_t held = 0;  ///< weights of the packs between
};

/// The list of one rank in ZB-V: forwards of its first stage until the first pack is through all
/// stages; pairs of forwards and backwards of both stages in turn; what is left of the backwards.
/// `way` 0 is its stage on the way there, 1 the one on the way back.
class ZeroBubbleList {
 public:
  /// `packs`: of the whole list, of which `kept` exist.
  ZeroBubbleList(std::int32_t rank, std::int32_t ranks, std::int32_t packs, std::int32_t kept,
                 bool split)
      : rank_(rank),
        ranks_(ranks),
        packs_(packs),
        kept_(kept),
        split_(split),
        stages_{StageId(rank), StageId(2 * ranks - 1 - rank)} {}

  std::vector<Action> make() {
    warm_up();
    while (forwards_[1] < forwards_[0] || forwards_[0] < packs_) {
      if (forwards_[0] < packs_) forward(0);
      whole_backward(0);
      forward(1);
      whole_backward(1);
    }
    cool_down();
    return std::move(actions_);
  }

 private:
  void warm_up() {
    for (std::int32_t i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward(0);
    for (std::int32_t i = 0; i < rank_; ++i) forward(1), forward(0);
    for (std::int32_t i = 0; i < ranks_ - rank_; ++i) forward(1), whole_backward(1);
  }

  /// The rank before waits for input gradients, so weight gradients come last.
  void cool_down() {
    for (std::int32_t i = 0; i < rank_; ++i) input_gradient(0), input_gradient(1);
    for (std::int32_t i = 0; i < ranks_ - rank_; ++i) {
      input_gradient(0);
      weight_gradient(0);
    }
    for (const std::size_t way : {1, 0})
      while (weights_[way] < backwards_[way]) weight_gradient(way);
  }

  void add(std::size_t way, Pass pass, std::int32_t pack) {
    if (pack < kept_) actions_.push_back({stages_[way], pass, PackId(pack)});
  }
  void forward(std::size_t way) { add(way, Pass::kForward, forwards_[way]++); }
  void input_gradient(std::size_t way) {
    add(way, split_ ? Pass::kInputGradient : Pass::kBackward, backwards_[way]++);
  }
  void weight_gradient(std::size_t way) {
    const std::int32_t pack = weights_[way]++;
    if (split_) add(way, Pass::kWeightGradient, pack);
  }
  void whole_backward(std::size_t way) {
    input_gradient(way);
    weight_gradient(way);
  }

  std::int32_t rank_, ranks_, packs_, kept_;
  bool split_;
  std::array<StageId, 2> stages_;
  std::array<std::int32_t, 2> forwards_{}, backwards_{}, weights_{};  ///< by way: packs listed
  std::vector<Action> actions_;
};

}  // namespace

Schedule one_f_one_b(const PackPlan& packs, int stages) {
  SLIMPACK_CHECK(packs.forward.size() == packs.backward.size() && stages >= 1);
  const auto count = static_cast<std::int32_t>(packs.forward.size());
  Schedule schedule;
  for (std::int32_t s = 0; s < stages; ++s) {
    auto& actions = schedule.ranks.emplace_back();
    const std::int32_t ahead = std::min(stages - s - 1, count);
    for (std::int32_t f = 0; f < ahead; ++f)
      actions.push_back({StageId(s), Pass::kForward, PackId(f)});
    for (std::int32_t b = 0; b < count; ++b) {
      if (ahead + b < count) actions.push_back({StageId(s), Pass::kForward, PackId(ahead + b)});
      actions.push_back({StageId(s), Pass::kBackward, PackId(b)});
    }
  }
  return schedule;
}

Schedule columned_one_f_one_b(const std::vector<std::int32_t>& columns, std::int32_t count,
                              int ranks, std::int32_t stages_per_rank) {
  std::vector<std::int32_t> pack_of(static_cast<std::size_t>(count), -1);
  for (std::size_t p = 0; p < columns.size(); ++p) {
    SLIMPACK_CHECK(columns[p] < count && (p == 0 ? columns[p] >= 0 : columns[p] > columns[p - 1]));
    pack_of[static_cast<std::size_t>(columns[p])] = static_cast<std::int32_t>(p);
  }
  PackPlan all;
  for (std::int32_t c = 0; c < count; ++c)
    all.forward.push_back({{Slice{SequenceId(c), Tokens(0), Tokens(1)}}});
  all.backward = all.forward;
  const Schedule whole = stages_per_rank == 1 ? one_f_one_b(all, ranks)
                                              : sliced_one_f_one_b(all, ranks, 2, stages_per_rank);
  Schedule schedule{{}, whole.placement};
  for (const auto& actions : whole.ranks) {
    auto& own = schedule.ranks.emplace_back();
    for (const Action& action : actions)
      if (const std::int32_t pack = pack_of[action.pack.index()]; pack >= 0)
        own.push_back({action.stage, action.pass, PackId(pack)});
  }
  return schedule;
}

// The last rank runs `in_flight` forwards ahead throughout the step: the most that any backward
// needs beyond one for each backward before it. Each rank is a constant number of forwards ahead of
// the next, never behind. So a forward never waits for a backward that comes after it, and the
// ranks cannot wait for each other in a circle. With several stages a rank the first waits for the
// last, too: forward for the rows that the last has sent a round before, backward for slots. The
// first leads by 2 (p − 1) forwards. Two rounds are more than that, so it does not wait for what
// comes after its own backward; and less than that and the slots of both directions, so the two do
// not wait for each other's slots. Where there are no such rounds, all forwards run before the
// first backward.
Schedule sliced_one_f_one_b(const PackPlan& packs, int ranks, std::int32_t ahead_per_rank,
                            std::int32_t stages_per_rank) {
  SLIMPACK_CHECK(ranks >= 1 && ahead_per_rank >= 0 && stages_per_rank >= 1 &&
                 (stages_per_rank == 1 || ahead_per_rank == 2));
  const std::vector<std::int32_t> needed = running_needs(packs);
  const auto forwards = static_cast<std::int32_t>(packs.forward.size());
  const FoldedOrders orders(batches_of(needed, forwards, ranks), ranks, stages_per_rank);
  const std::vector<std::int32_t> folded = folded_needs(needed, orders, kChannelSlots).running;
  const auto count = static_cast<std::int32_t>(orders.forward.all().size());
  const auto backwards = static_cast<std::int32_t>(folded.size());
  std::int32_t in_flight = 0;
  for (std::int32_t b = 0; b < backwards; ++b)
    in_flight = std::max(in_flight, folded[static_cast<std::size_t>(b)] - b);
  if (stages_per_rank > 1 && !has_rounds(orders.forward.largest_round(), ranks)) in_flight = count;
  Schedule schedule;
  for (std::int32_t r = 0; r < ranks; ++r) {
    const std::int32_t ahead = in_flight + ahead_per_rank * (ranks - 1 - r);
    auto& actions = schedule.ranks.emplace_back();
    std::int32_t f = 0;
    for (std::int32_t b = 0; b < backwards; ++b) {
      for (; f < std::min(ahead + b, count); ++f)
        actions.push_back({StageId(r), Pass::kForward, PackId(f)});
      actions.push_back({StageId(r), Pass::kBackward, PackId(b)});
    }
  }
  return unfolded(schedule, orders);
}

Schedule split_backwards(const Schedule& schedule) {
  Schedule split;
  for (std::size_t s = 0; s < schedule.ranks.size(); ++s) {
    auto& actions = split.ranks.emplace_back();
    std::size_t sent = 0;      // input gradients
    std::size_t computed = 0;  // weight gradients
    const auto weights_of_next = [&] {
      actions.push_back({StageId(s), Pass::kWeightGradient, PackId(computed++)});
    };
    for (const Action& action : schedule.ranks[s]) {
      SLIMPACK_CHECK(action.pass == Pass::kForward || action.pass == Pass::kBackward);
      if (action.pass == Pass::kForward) {
        actions.push_back(action);
        continue;
      }
      actions.push_back({action.stage, Pass::kInputGradient, action.pack});
      if (++sent > s) weights_of_next();
    }
    while (computed < sent) weights_of_next();
  }
  return split;
}

std::optional<PackId> first_split(const Schedule& schedule) {
  std::optional<PackId> first;
  for (const std::vector<Action>& actions : schedule.ranks)
    for (const Action& action : actions)
      if (action.pass == Pass::kInputGradient && (!first || action.pack < *first))
        first = action.pack;
  return first;
}

Schedule zero_bubble_v(const PackPlan& packs, int ranks, bool split) {
  SLIMPACK_CHECK(packs.forward.size() == packs.backward.size() && ranks >= 2);
  const auto count = static_cast<std::int32_t>(packs.forward.size());
  Schedule schedule{{}, StagePlacement::of(PlacementStyle::kV, ranks, 2)};
  // Fewer packs leave the others' places in the list empty.
  const std::int32_t least = 2 * ranks - 1;
  for (std::int32_t r = 0; r < ranks; ++r)
    schedule.ranks.push_back(ZeroBubbleList(r, ranks, std::max(count, least), count, split).make());
  return schedule;
}

// Cycle by cycle until every stage has run everything: each stage runs its next backward and its
// next forward if the stages before had run them when the cycle began.
Schedule wait_free_cyclic(std::span<const std::int64_t> weights, int stages, std::int64_t limit) {
  SLIMPACK_CHECK(stages >= 1);
  Schedule schedule;
  schedule.ranks.resize(static_cast<std::size_t>(stages));
  std::vector<Progress> ran(schedule.ranks.size());
  while (ran.front().backward < weights.size()) {
    const std::vector<Progress> before = ran;
    for (std::size_t s = 0; s < ran.size(); ++s) {
      Progress& own = ran[s];
      const std::size_t arrived = s == 0 ? weights.size() : before[s - 1].forward;
      const std::size_t returned = s + 1 == ran.size() ? before[s].forward : before[s + 1].backward;
      const auto run = [&](Pass pass, std::size_t pack) {
        schedule.ranks[s].push_back({StageId(s), pass, PackId(pack)});
      };
      if (own.backward < returned) {
        run(Pass::kBackward, own.backward);
        own.held -= weights[own.backward++];
      }
      if (own.forward == arrived) continue;
      const std::int64_t weight = weights[own.forward];
      if (own.backward < own.forward && own.held + weight > limit) continue;
      run(Pass::kForward, own.forward);
      own.held += weight;
      ++own.forward;
    }
  }
  return schedule;
}

}  // namespace slimpack
