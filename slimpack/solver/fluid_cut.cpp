#include "slimpack/solver/fluid_cut.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

/// One partition's walk through the sequences: forward cuts each from its head, backward from its
/// tail. Room in a MicroPack, costs and budgets are all in the unit of `cost`.
struct Walk {
  const SequenceLengths& lengths;
  const std::vector<SequenceId>& order;
  PackCost cost;
  Pass pass;
  std::int64_t granularity;
  bool fill;
  std::vector<double> whole_cost;  ///< of each sequence in one slice, by place in `order`
  std::vector<double> cost_from;   ///< of all sequences from a place on, each in one slice
};

Slice whole_sequence(const Walk& walk, std::size_t place) {
  const SequenceId id = walk.order[place];
  return {id, Tokens(0), walk.lengths[id.index()]};
}

Walk make_walk(const SequenceLengths& lengths, const std::vector<SequenceId>& order,
               const PackCost& cost, Pass pass, const FluidCutOptions& options) {
  Walk walk{lengths, order, cost, pass, options.granularity.count(), options.fill, {}, {}};
  walk.whole_cost.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    walk.whole_cost.push_back(cost(whole_sequence(walk, i)));
  walk.cost_from.assign(order.size() + 1, 0);
  for (std::size_t i = order.size(); i-- > 0;)
    walk.cost_from[i] = walk.cost_from[i + 1] + walk.whole_cost[i];
  return walk;
}

/// The ways to cut what is left of a sequence in two: cuts lie on the grid with a granule or more
/// on either side. The rest begins or ends on the grid, whichever was cut before.
class Cuts {
 public:
  Cuts(const Walk& walk, const Slice& rest)
      : walk_(walk),
        rest_(rest),
        count_(std::max<std::int64_t>(0, rest.length().count() / walk.granularity - 1)) {}

  [[nodiscard]] std::int64_t count() const { return count_; }

  /// The piece that the k-th cut takes off; pieces grow with k. REQUIRES: 1 ≤ k ≤ count.
  [[nodiscard]] Slice piece(std::int64_t k) const {
    const Tokens cut = rest_.begin + Tokens(cut_granules(k) * walk_.granularity);
    return walk_.pass == Pass::kForward ? Slice{rest_.sequence, rest_.begin, cut}
                                        : Slice{rest_.sequence, cut, rest_.end};
  }

  /// The rest that the k-th cut leaves.
  [[nodiscard]] Slice remainder(std::int64_t k) const {
    const Tokens cut = rest_.begin + Tokens(cut_granules(k) * walk_.granularity);
    return walk_.pass == Pass::kForward ? Slice{rest_.sequence, cut, rest_.end}
                                        : Slice{rest_.sequence, rest_.begin, cut};
  }

  /// The longest piece that costs at most `room`: its k, where 0 stands for none. The cost is a
  /// quadratic of the length, so its root is at most a granule off.
  [[nodiscard]] std::int64_t longest_within(double room) const {
    if (count_ == 0) return 0;
    if (walk_.cost.windowed() || walk_.cost.travel != Travel()) return searched_within(room);
    const auto granule = static_cast<double>(walk_.granularity);
    const double ragged =
        walk_.pass == Pass::kForward
            ? 0
            : static_cast<double>(rest_.length().count() - (count_ + 1) * walk_.granularity);
    const double k = std::floor((length_of(room) - ragged) / granule);
    std::int64_t fits = static_cast<std::int64_t>(std::clamp(k, 0.0, static_cast<double>(count_)));
    while (fits < count_ && walk_.cost(piece(fits + 1)) <= room) ++fits;
    while (fits > 0 && walk_.cost(piece(fits)) > room) --fits;
    return fits;
  }

 private:
  /// The longest piece where windows or messages (Travel) bend the cost. From the head pieces cost
  /// more the longer they are. From the tail the cost is concave: where the longest piece is too
  /// much, so are all beyond some length. Messages may make that piece shorter than it could be.
  [[nodiscard]] std::int64_t searched_within(double room) const {
    if (walk_.cost(piece(count_)) <= room) return count_;
    std::int64_t fits = 0;
    for (std::int64_t end = count_; end - fits > 1;) {
      const std::int64_t middle = fits + (end - fits) / 2;
      (walk_.cost(piece(middle)) <= room ? fits : end) = middle;
    }
    return fits;
  }

  /// Length of a piece, off the grid, that costs `room`. With x tokens, e the end of what is left,
  /// a its begin: from the head per_pair·x²/2 + (per_token + per_pair·(a + 1/2))·x are left for x,
  /// from the tail −per_pair·x²/2 + (per_token + per_pair·(e + 1/2) − per_prefix_token)·x.
  [[nodiscard]] double length_of(double room) const {
    const bool head = walk_.pass == Pass::kForward;
    const PackCost& cost = walk_.cost;
    const auto edge = static_cast<double>((head ? rest_.begin : rest_.end).count());
    const double left = room - cost.per_slice - cost.per_prefix_token * edge;
    const double linear =
        cost.per_token + cost.per_pair * (edge + 0.5) - (head ? 0 : cost.per_prefix_token);
    const double square = linear * linear + (head ? 2 : -2) * cost.per_pair * left;
    if (left <= 0) return 0;
    if (square <= 0 || linear <= 0) return static_cast<double>(rest_.length().count());
    return 2 * left / (linear + std::sqrt(square));
  }

  [[nodiscard]] std::int64_t cut_granules(std::int64_t k) const {
    return walk_.pass == Pass::kForward ? k : count_ + 1 - k;
  }

  const Walk& walk_;
  Slice rest_;
  std::int64_t count_;
};

struct Poured {
  int packs = 0;
  double left = 0;  ///< cost of what did not fit, uncut
  double room = 0;  ///< of the last MicroPack, when everything fits
};

/// The place of the first sequence, from `begin` on, that does not fit into the room whole. Looks
/// twice as far each time, for a MicroPack has few of the sequences.
std::size_t end_within(const Walk& walk, std::size_t begin, double room) {
  const std::vector<double>& from = walk.cost_from;
  const auto fits = [&](std::size_t end) { return from[begin] - from[end] <= room; };
  const std::size_t most = walk.order.size();
  std::size_t low = begin, high = begin + 1;
  while (high <= most && fits(high)) {
    low = high;
    high += high - begin;
  }
  high = std::min(high, most + 1);
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// Pours every sequence of the walk into at most `limit` MicroPacks of budget(index) each. Calls
/// emit.whole(index, begin, end) for sequences that stay whole, at these places, and
/// emit.slice(index, slice) for every slice of the others.
template <class Budget, class Emit>
Poured pour(const Walk& walk, int limit, const Budget& budget, Emit&& emit) {
  int pack = 0;
  double room = budget(0);
  bool empty = true;
  for (std::size_t i = 0; i < walk.order.size(); ++i) {
    if (const std::size_t end = end_within(walk, i, room); end > i) {
      emit.whole(pack, i, end);
      room -= walk.cost_from[i] - walk.cost_from[end];
      empty = false;
      i = end;
      if (i == walk.order.size()) break;
    }
    Slice rest = whole_sequence(walk, i);
    double rest_cost = walk.whole_cost[i];
    if (!walk.fill && !empty) {
      if (++pack >= limit) return {limit, walk.cost_from[i], 0};
      room = budget(pack);
      empty = true;
    }
    while (rest_cost > room) {
      const Cuts cuts(walk, rest);
      std::int64_t k = cuts.longest_within(room);
      // Nothing fits: an open MicroPack closes, an empty one takes the least there is.
      if (k == 0 && empty) k = 1;
      if (k > cuts.count()) break;
      if (k > 0) {
        emit.slice(pack, cuts.piece(k));
        rest = cuts.remainder(k);
        rest_cost = walk.cost(rest);
      }
      if (++pack >= limit) return {limit, rest_cost + walk.cost_from[i + 1], 0};
      room = budget(pack);
      empty = true;
    }
    emit.slice(pack, rest);
    room -= rest_cost;
    empty = false;
  }
  return {pack + 1, 0, room};
}

/// Share of the full budget of each MicroPack: taper … 1 … 1 … taper.
std::vector<double> taper_shares(const FluidCutOptions& options) {
  std::vector<double> shares(static_cast<std::size_t>(options.packs), 1.0);
  const auto share = [&](int i, int count) {
    return options.taper + (1 - options.taper) * static_cast<double>(i) / count;
  };
  for (int i = 0; i < std::min(options.taper_front, options.packs); ++i) {
    double& front = shares[static_cast<std::size_t>(i)];
    front = std::min(front, share(i, options.taper_front));
  }
  for (int i = 0; i < std::min(options.taper_back, options.packs); ++i) {
    double& back = shares[shares.size() - 1 - static_cast<std::size_t>(i)];
    back = std::min(back, share(i, options.taper_back));
  }
  return shares;
}

/// Where only the budget is asked for.
struct NoSlices {
  void whole(int, std::size_t, std::size_t) const {}
  void slice(int, const Slice&) const {}
};

/// The smallest full budget (to kPrecision) with which the walk fits into the MicroPacks.
double least_budget(const Walk& walk, const std::vector<double>& shares) {
  constexpr double kPrecision = 1e-3;
  const auto packs = static_cast<int>(shares.size());
  const double whole_packs = std::accumulate(shares.begin(), shares.end(), 0.0);
  // The cost that a full budget misses (< 0) or has to spare.
  const auto spare_of = [&](double full) {
    const auto budget = [&](int pack) { return full * shares[static_cast<std::size_t>(pack)]; };
    const Poured result = pour(walk, packs, budget, NoSlices());
    if (result.left > 0) return -result.left;
    const double unused = std::accumulate(shares.begin() + result.packs, shares.end(), 0.0);
    return std::max(0.0, unused * full + result.room);
  };
  // 1. No budget below the mean is enough, for cutting only adds cost …
  double low = walk.cost_from.front() / whole_packs;
  double missing = -spare_of(low);
  if (missing <= 0) return low;
  // 2. … and usually little more than what was left over, shared out, is: step up by that, further
  //    each time it is not enough, …
  double high = low;
  double spare = -missing;
  for (double reach = 1; spare < 0; reach *= 1.5) {
    missing = -spare;
    low = high;
    high += std::max(reach * missing / whole_packs, kPrecision / 2 * low);
    spare = spare_of(high);
  }
  // 3. … then close in: step from the nearer side by the cost that it misses or has to spare, twice
  //    as far each time that the step does not lead to the other side. Where the cost jumps about
  //    close by, bisect.
  double reach = 1;
  while (high - low > kPrecision * low) {
    const bool down = spare <= missing;
    const double aim = reach * ((down ? spare : missing) / whole_packs + kPrecision / 2 * low);
    const double half = (high - low) / 2;
    const double middle = aim > half ? low + half : (down ? high - aim : low + aim);
    const double found = spare_of(middle);
    reach = (found < 0) == down ? 1 : 2 * reach;
    (found < 0 ? low : high) = middle;
    (found < 0 ? missing : spare) = std::abs(found);
  }
  return high;
}

/// Collects the slices of MicroPacks.
class Packing {
 public:
  Packing(const Walk& walk, std::size_t packs) : walk_(walk) { packs_.reserve(packs); }

  void whole(int pack, std::size_t begin, std::size_t end) {
    std::vector<Slice>& slices = slices_of(pack);
    slices.reserve(slices.size() + end - begin);
    for (std::size_t i = begin; i < end; ++i) slices.push_back(whole_sequence(walk_, i));
  }
  void slice(int pack, const Slice& slice) { slices_of(pack).push_back(slice); }

  [[nodiscard]] std::vector<MicroPack> take() { return std::move(packs_); }

 private:
  std::vector<Slice>& slices_of(int pack) {
    packs_.resize(static_cast<std::size_t>(pack) + 1);
    return packs_.back().slices;
  }

  const Walk& walk_;
  std::vector<MicroPack> packs_;
};

std::vector<MicroPack> poured(const Walk& walk, const std::vector<double>& shares, double full) {
  Packing packing(walk, shares.size());
  const auto budget = [&](int pack) { return full * shares[static_cast<std::size_t>(pack)]; };
  const Poured result = pour(walk, static_cast<int>(shares.size()), budget, packing);
  std::vector<MicroPack> packs = packing.take();
  SLIMPACK_CHECK(static_cast<std::size_t>(result.packs) == packs.size() && result.left == 0);
  return packs;
}

/// The symmetric backward partition: the slices of `forward`, those of a sequence from its tail.
std::vector<MicroPack> repacked(const std::vector<MicroPack>& forward, const PackCost& cost,
                                double budget) {
  // The forward walk leaves the slices of a sequence next to each other.
  std::vector<Slice> slices;
  for (const MicroPack& pack : forward) {
    slices.insert(slices.end(), pack.slices.begin(), pack.slices.end());
  }
  for (auto begin = slices.begin(); begin != slices.end();) {
    const auto end = std::find_if(
        begin, slices.end(), [&](const Slice& slice) { return slice.sequence != begin->sequence; });
    std::reverse(begin, end);
    begin = end;
  }
  std::vector<MicroPack> packs;
  double room = 0;
  for (const Slice& slice : slices) {
    const double time = cost(slice);
    // Two slices of one sequence would have to become one slice: another cut than the forward's.
    const bool same_sequence =
        !packs.empty() && packs.back().slices.back().sequence == slice.sequence;
    if (packs.empty() || same_sequence || time > room) {
      packs.emplace_back();
      room = budget;
    }
    packs.back().slices.push_back(slice);
    room -= time;
  }
  return packs;
}

}  // namespace

std::vector<SequenceId> fluid_order(const SequenceLengths& lengths,
                                    std::vector<SequenceId> sequences, int short_first) {
  SLIMPACK_CHECK(short_first >= 0);
  sort_longest_first(lengths, sequences);
  // The shortest are at the end, those of one length by id.
  std::vector<SequenceId> ahead;
  const std::size_t wanted = std::min(static_cast<std::size_t>(short_first), sequences.size());
  for (auto end = sequences.end(); ahead.size() < wanted;) {
    const Tokens length = lengths[std::prev(end)->index()];
    const auto begin =
        std::lower_bound(sequences.begin(), end, length,
                         [&](SequenceId q, Tokens of) { return lengths[q.index()] > of; });
    const auto taken = begin + std::min<std::ptrdiff_t>(
                                   end - begin, static_cast<std::ptrdiff_t>(wanted - ahead.size()));
    ahead.insert(ahead.end(), begin, taken);
    end = sequences.erase(begin, taken);  // if more are wanted, all of this length are gone
  }
  ahead.insert(ahead.end(), sequences.begin(), sequences.end());
  return ahead;
}

PackPlan fluid_cut(const SequenceLengths& lengths, const std::vector<SequenceId>& order,
                   const PackCost& forward, const PackCost& backward,
                   const FluidCutOptions& options) {
  SLIMPACK_CHECK(options.packs >= 1 && options.taper_front >= 0 && options.taper_back >= 0);
  SLIMPACK_CHECK(options.granularity >= Tokens(1));
  SLIMPACK_CHECK(options.taper > 0 && options.taper <= 1);
  for (const SequenceId id : order) SLIMPACK_CHECK(lengths[id.index()] >= Tokens(1));
  if (order.empty()) return {};

  const std::vector<double> shares = taper_shares(options);
  const Walk forward_walk = make_walk(lengths, order, forward, Pass::kForward, options);
  const double budget = least_budget(forward_walk, shares);
  PackPlan plan;
  plan.forward = poured(forward_walk, shares, budget);
  if (options.asymmetric) {
    const Walk backward_walk = make_walk(lengths, order, backward, Pass::kBackward, options);
    plan.backward = poured(backward_walk, shares, least_budget(backward_walk, shares));
  } else {
    plan.backward = repacked(plan.forward, forward, budget);
  }
  return plan;
}

}  // namespace slimpack
