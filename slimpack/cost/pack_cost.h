// Time of a MicroPack as coefficients: small enough to be copied into a solver's inner loop.
#pragma once

#include <algorithm>

#include "slimpack/workload/slice.h"

namespace slimpack {

/// per_pack + per_token·tokens, in nanoseconds.
struct EdgeTime {
  double per_pack = 0;
  double per_token = 0;

  bool operator==(const EdgeTime&) const = default;
};

/// Nanoseconds of a MicroPack in one pass on a layer or on a whole stage:
///   per_pack + Σ slices (per_slice + per_token·q + per_pair·pairs + per_prefix_token·prefix
///                        + per_window_pair·window pairs + per_window_prefix·window prefix
///                        − saving)
///   + per_missing_row·max(0, kFullRows − Σ q)
/// with q tokens and `pairs` causal query–key pairs. per_prefix_token is the bandwidth term: the
/// pass reads the prefix's keys and values, and backward also writes their gradients. Layers whose
/// queries attend to at most `window` keys have pairs and prefix within the window
/// (Slice::window_pairs, window_prefix). Where replicas share the slice, per_token sends its queries,
/// and keys travel instead where that saves: max(0, saved_per_token·q − lost_per_prefix_token·prefix)
/// (context_travel.h). Matrix products of few rows run slower: the last term.
/// Solvers and bounds leave it out, so that the cost of a MicroPack stays the sum of its slices'.
/// No coefficient is negative.
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
  double saved_per_token = 0;        ///< at most per_token
  double lost_per_prefix_token = 0;  ///< of that saving

  /// The nanoseconds that a slice adds to its MicroPack.
  [[nodiscard]] constexpr double operator()(const Slice& slice) const {
    return per_slice + per_token * static_cast<double>(slice.length().count()) +
           per_pair * slice.causal_pairs() + prefix(slice) +
           (windowed() ? per_window_pair * slice.window_pairs(window) : 0) -
           saving(static_cast<double>(slice.length().count()),
                  static_cast<double>(slice.prefix().count()));
  }

  /// Of that, what the prefix costs, but for a smaller saving.
  [[nodiscard]] constexpr double prefix(const Slice& slice) const {
    const auto tokens = [](Tokens count) { return static_cast<double>(count.count()); };
    return per_prefix_token * tokens(slice.prefix()) +
           (windowed() ? per_window_prefix * tokens(slice.window_prefix(window)) : 0);
  }

  /// Of slices that run together, with so many tokens and tokens before them.
  [[nodiscard]] constexpr double saving(double tokens, double prefix) const {
    return std::max(0.0, saved_per_token * tokens - lost_per_prefix_token * prefix);
  }

  [[nodiscard]] constexpr bool saves() const { return saved_per_token > 0; }
  [[nodiscard]] constexpr bool windowed() const { return window > Tokens(0); }

  /// The last term, of a MicroPack with so many rows on each rank.
  [[nodiscard]] constexpr double missing_rows(double rows) const {
    return per_missing_row * std::max(0.0, static_cast<double>(kFullRows.count()) - rows);
  }

  bool operator==(const PackCost&) const = default;
};

/// `of` each coefficient of both, and of what saved_per_token adds, which is negative. REQUIRES: the
/// same window, if both have one.
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
          0.0 - of(-a.saved_per_token, -b.saved_per_token),
          of(a.lost_per_prefix_token, b.lost_per_prefix_token)};
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
  return {factor * a.per_pack,          factor * a.per_slice,
          factor * a.per_token,         factor * a.per_pair,
          factor * a.per_prefix_token,  factor * a.per_window_pair,
          factor * a.per_window_prefix, a.window,
          factor * a.per_missing_row,   factor * a.saved_per_token,
          factor * a.lost_per_prefix_token};
}

/// Divides each coefficient by `divisor`.
[[nodiscard]] constexpr PackCost operator/(const PackCost& a, double divisor) {
  return {a.per_pack / divisor,          a.per_slice / divisor,
          a.per_token / divisor,         a.per_pair / divisor,
          a.per_prefix_token / divisor,  a.per_window_pair / divisor,
          a.per_window_prefix / divisor, a.window,
          a.per_missing_row / divisor,   a.saved_per_token / divisor,
          a.lost_per_prefix_token / divisor};
}

}  // namespace slimpack
