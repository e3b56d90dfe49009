// Time of a MicroPack as coefficients: small enough to be copied into a solver's inner loop.
#pragma once

#include <algorithm>

#include "slimpack/plan/slice.h"

namespace slimpack {

/// per_pack + per_token·tokens, in nanoseconds.
struct EdgeTime {
  double per_pack = 0;
  double per_token = 0;

  bool operator==(const EdgeTime&) const = default;
};

/// Nanoseconds that a pass of slices waits for what travels between replicas that share them:
///   max(0, min(per_query·q, per_key·(q + prefix)) − hidden_per_pair·pairs)
/// Queries and their results travel, or the keys of all tokens so far, whichever takes less time
/// (keys_travel), while attention computes. Layers with a window have pairs within it.
struct Travel {
  /// per_query where queries never travel: more than any time.
  static constexpr double kNever = 1e30;

  double per_query = 0;
  double per_key = 0;
  double hidden_per_pair = 0;

  [[nodiscard]] constexpr double time(double tokens, double prefix, double pairs) const {
    return std::max(
        0.0, std::min(per_query * tokens, per_key * (tokens + prefix)) - hidden_per_pair * pairs);
  }

  bool operator==(const Travel&) const = default;
};

/// Nanoseconds of a MicroPack in one pass on a layer or on a whole stage:
///   per_pack + Σ slices (per_slice + per_token·q + per_pair·pairs + per_prefix_token·prefix
///                        + per_window_pair·window pairs + per_window_prefix·window prefix)
///   + per_missing_row·max(0, kFullRows − Σ q) + travelling
/// with q tokens and `pairs` causal query–key pairs. per_prefix_token is the bandwidth term: the
/// pass reads the prefix's keys and values, and backward also writes their gradients. Layers whose
/// queries attend to at most `window` keys have pairs and prefix within the window
/// (Slice::window_pairs, window_prefix). Matrix products of few rows run slower: per_missing_row.
/// Solvers and bounds leave it out, so that the cost of a MicroPack stays the sum of its slices'.
/// Where replicas share the MicroPack, its queries or its keys travel while it computes; what is
/// not hidden by that counts (Travel). No coefficient is negative.
struct PackCost {
  /// MicroPacks of so many rows have no missing rows. Measured on a CPU with AVX-512: layers of
  /// hidden size 1024 lose 45% at 64 rows, 7% at 256, and less than noise from 512 on.
  static constexpr Tokens kFullRows{512};

  double per_pack = 0;
  double per_slice = 0;
  double per_token = 0;
  double per_pair = 0;
  double per_prefix_token = 0;
  double per_window_pair = 0;
  double per_window_prefix = 0;
  Tokens window{0};  ///< 0 = no layer has one, and the two terms before are 0
  double per_missing_row = 0;
  Travel travel = {};

  /// The nanoseconds that a slice adds to its MicroPack, at most: slices that run together hide
  /// each other's travelling, too.
  [[nodiscard]] constexpr double operator()(const Slice& slice) const {
    return per_slice + per_token * static_cast<double>(slice.length().count()) +
           per_pair * slice.causal_pairs() + prefix(slice) +
           (windowed() ? per_window_pair * slice.window_pairs(window) : 0) + travelling(slice);
  }

  /// The nanoseconds that reading the prefix takes of a slice's time.
  [[nodiscard]] constexpr double prefix(const Slice& slice) const {
    const auto tokens = [](Tokens count) { return static_cast<double>(count.count()); };
    return per_prefix_token * tokens(slice.prefix()) +
           (windowed() ? per_window_prefix * tokens(slice.window_prefix(window)) : 0);
  }

  [[nodiscard]] constexpr double travelling(const Slice& slice) const {
    if (travel == Travel()) return 0;
    return travel.time(static_cast<double>(slice.length().count()),
                       static_cast<double>(slice.prefix().count()),
                       windowed() ? slice.window_pairs(window) : slice.causal_pairs());
  }

  [[nodiscard]] constexpr bool windowed() const { return window > Tokens(0); }

  /// The last term, of a MicroPack with so many rows on each rank.
  [[nodiscard]] constexpr double missing_rows(double rows) const {
    return per_missing_row * std::max(0.0, static_cast<double>(kFullRows.count()) - rows);
  }

  bool operator==(const PackCost&) const = default;
};

/// `of` each coefficient of both. REQUIRES: the same window, if both have one.
template <class Of>
[[nodiscard]] constexpr PackCost combined(const PackCost& a, const PackCost& b, Of of) {
  return {of(a.per_pack, b.per_pack),
          of(a.per_slice, b.per_slice),
          of(a.per_token, b.per_token),
          of(a.per_pair, b.per_pair),
          of(a.per_prefix_token, b.per_prefix_token),
          of(a.per_window_pair, b.per_window_pair),
          of(a.per_window_prefix, b.per_window_prefix),
          std::max(a.window, b.window),
          of(a.per_missing_row, b.per_missing_row),
          {of(a.travel.per_query, b.travel.per_query), of(a.travel.per_key, b.travel.per_key),
           0.0 - of(-a.travel.hidden_per_pair, -b.travel.hidden_per_pair)}};
}

/// The cost of running `a`, then `b`. REQUIRES: as combined.
[[nodiscard]] constexpr PackCost operator+(const PackCost& a, const PackCost& b) {
  return combined(a, b, [](double x, double y) { return x + y; });
}

/// The smaller one of each coefficient, and the larger one. REQUIRES: as combined.
[[nodiscard]] constexpr PackCost smaller_terms(const PackCost& a, const PackCost& b) {
  return combined(a, b, [](double x, double y) { return std::min(x, y); });
}
[[nodiscard]] constexpr PackCost larger_terms(const PackCost& a, const PackCost& b) {
  return combined(a, b, [](double x, double y) { return std::max(x, y); });
}

/// Multiplies each coefficient by `factor`.
[[nodiscard]] constexpr PackCost operator*(double factor, const PackCost& a) {
  return {
      factor * a.per_pack,
      factor * a.per_slice,
      factor * a.per_token,
      factor * a.per_pair,
      factor * a.per_prefix_token,
      factor * a.per_window_pair,
      factor * a.per_window_prefix,
      a.window,
      factor * a.per_missing_row,
      {factor * a.travel.per_query, factor * a.travel.per_key, factor * a.travel.hidden_per_pair}};
}

/// Divides each coefficient by `divisor`.
[[nodiscard]] constexpr PackCost operator/(const PackCost& a, double divisor) {
  return {a.per_pack / divisor,
          a.per_slice / divisor,
          a.per_token / divisor,
          a.per_pair / divisor,
          a.per_prefix_token / divisor,
          a.per_window_pair / divisor,
          a.per_window_prefix / divisor,
          a.window,
          a.per_missing_row / divisor,
          {a.travel.per_query / divisor, a.travel.per_key / divisor,
           a.travel.hidden_per_pair / divisor}};
}

/// The terms that add up to the same however a sequence is cut: those of tokens and of pairs.
[[nodiscard]] constexpr PackCost adding_up(const PackCost& cost) {
  PackCost out;
  out.per_token = cost.per_token;
  out.per_pair = cost.per_pair;
  out.per_window_pair = cost.per_window_pair;
  out.window = cost.window;
  return out;
}

/// The times of a step's sequences, each in one slice: sums over all sequences. Without windows
/// they follow from three sums of the lengths.
class WholeSequences {
 public:
  /// Keeps a reference. Cost: O(sequences).
  explicit WholeSequences(const SequenceLengths& lengths) : lengths_(lengths) {
    for (const Tokens length : lengths) {
      tokens_ += static_cast<double>(length.count());
      pairs_ += whole(length).causal_pairs();
    }
  }

  /// Σ cost(sequence), in nanoseconds; without per_pack. Cost: O(1), with windows O(sequences).
  [[nodiscard]] double time(const PackCost& cost) const {
    double window_pairs = 0;
    if (cost.windowed())
      for (const Tokens length : lengths_) window_pairs += whole(length).window_pairs(cost.window);
    return cost.per_slice * static_cast<double>(lengths_.size()) + cost.per_token * tokens_ +
           cost.per_pair * pairs_ + cost.per_window_pair * window_pairs;
  }

 private:
  [[nodiscard]] static Slice whole(Tokens length) { return {SequenceId(), Tokens(0), length}; }

  const SequenceLengths& lengths_;
  double tokens_ = 0;
  double pairs_ = 0;
};

}  // namespace slimpack
