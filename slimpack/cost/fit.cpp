#include "slimpack/cost/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"

namespace slimpack {

namespace {

using Vector = std::vector<double>;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double norm(std::span<const double> a) {
  return std::sqrt(dot(a, a));
}

/// a += factor·b
void add_scaled(Vector& a, double factor, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
}

/// Unconstrained least squares over columns[used…] by modified Gram–Schmidt: A = Q·R, then
/// R·x = Qᵀ·target from below, with the target treated as one more column for accuracy.
Vector least_squares(const std::vector<Vector>& columns, const std::vector<std::size_t>& used,
                     std::span<const double> target) {
  const std::size_t n = used.size();
  std::vector<Vector> q;
  std::vector<Vector> r(n, Vector(n, 0.0));
  Vector projected(n, 0.0);
  Vector rest(target.begin(), target.end());
  for (std::size_t j = 0; j < n; ++j) {
    Vector v = columns[used[j]];
    for (std::size_t i = 0; i < j; ++i) {
      r[i][j] = dot(q[i], v);
      add_scaled(v, -r[i][j], q[i]);
    }
    r[j][j] = norm(v);
    for (double& value : v) value /= r[j][j];
    projected[j] = dot(v, rest);
    add_scaled(rest, -projected[j], v);
    q.push_back(std::move(v));
  }
  Vector x(n);
  for (std::size_t j = n; j-- > 0;) {
    double sum = projected[j];
    for (std::size_t k = j + 1; k < n; ++k) sum -= r[j][k] * x[k];
    x[j] = sum / r[j][j];
  }
  return x;
}

class Solver {
 public:
  Solver(std::vector<Vector> unit_columns, std::span<const double> target)
      : columns_(std::move(unit_columns)), target_(target), x_(columns_.size(), 0.0) {}

  // 1. Start with x = 0 and no column in use.
  // 2. Take the column into use along which the residual falls fastest. Stop if there is none.
  // 3. Solve without constraints over the columns in use. If some x would not be positive, walk
  //    towards that solution until the first reaches 0, drop it from use and solve again.
  Vector run() {
    // Each round lowers the residual, so no set of columns returns, and the method needs few more
    // rounds than columns. Rounding could break that argument; the cap bounds the rounds anyway.
    const std::size_t most_rounds = 10 * x_.size();
    for (std::size_t round = 0; round < most_rounds && take_steepest(); ++round) settle();
    return x_;
  }

 private:
  bool take_steepest() {
    constexpr double kTolerance = 1e-12;  // of a unit column against the target's length
    Vector residual(target_.begin(), target_.end());
    for (const std::size_t j : used_) add_scaled(residual, -x_[j], columns_[j]);
    double steepest = kTolerance * norm(target_);
    std::size_t best = x_.size();
    for (std::size_t j = 0; j < x_.size(); ++j) {
      if (std::find(used_.begin(), used_.end(), j) != used_.end() || j == refused_) continue;
      const double slope = dot(columns_[j], residual);
      if (slope > steepest) {
        steepest = slope;
        best = j;
      }
    }
    if (best == x_.size()) return false;
    used_.push_back(best);
    return true;
  }

  void settle() {
    const std::size_t newest = used_.back();
    refused_ = kNone;
    for (;;) {
      const Vector goal = least_squares(columns_, used_, target_);
      double step = 1;
      std::size_t blocking = kNone;  // place in used_
      for (std::size_t i = 0; i < used_.size(); ++i) {
        if (goal[i] > 0) continue;
        const double x = x_[used_[i]];
        const double reach = x > 0 ? x / (x - goal[i]) : 0;
        if (blocking != kNone && reach >= step) continue;
        step = reach;
        blocking = i;
      }
      for (std::size_t i = 0; i < used_.size(); ++i) {
        double& x = x_[used_[i]];
        x = std::max(0.0, x + step * (goal[i] - x));
      }
      if (blocking == kNone) return;
      const std::size_t dropped = used_[blocking];
      x_[dropped] = 0;
      used_.erase(used_.begin() + static_cast<std::ptrdiff_t>(blocking));
      // Only rounding drops the column that was just taken. Do not take it again at once.
      if (dropped == newest) refused_ = newest;
    }
  }

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::vector<Vector> columns_;
  std::span<const double> target_;
  Vector x_;
  std::vector<std::size_t> used_;
  std::size_t refused_ = kNone;
};

/// Coefficients x ≥ 0 of Σ x[j]·features[j][row] ≈ targets[row]. A row's error counts divided by
/// its unit.
std::vector<double> fitted(std::vector<std::vector<double>> features, std::vector<double> targets,
                           const std::vector<double>& units) {
  SLIMPACK_CHECK(!units.empty());
  for (const double unit : units) SLIMPACK_CHECK(unit > 0);
  const auto divide = [&](std::vector<double>& column) {
    for (std::size_t row = 0; row < units.size(); ++row) column[row] /= units[row];
  };
  for (auto& feature : features) divide(feature);
  divide(targets);
  return non_negative_least_squares(features, targets);
}

Slice slice_of(const LayerMeasurement& m) {
  return {SequenceId(), m.prefix, m.prefix + m.tokens};
}

double rows_of(const LayerMeasurement& m) {
  return m.slices * static_cast<double>(m.tokens.count());
}

double time_of(const PackCost& cost, const LayerMeasurement& m) {
  return cost.per_pack + m.slices * cost(slice_of(m)) + cost.missing_rows(rows_of(m));
}

std::vector<double> times_of(std::span<const LayerMeasurement> measurements) {
  std::vector<double> times;
  for (const LayerMeasurement& m : measurements)
    times.push_back(static_cast<double>(m.time.count()));
  return times;
}

/// Usual profiles stay below this (docs/hardware.md).
constexpr double kLargeError = 0.3;
/// Noise explains the error if the fastest two repetitions differ by this share of it: what delayed
/// one of them may have delayed both.
constexpr double kNoise = 0.5;

std::string point_text(const LayerMeasurement& m) {
  const std::string tokens = fmt::format("{} tokens", grouped(m.tokens.count()));
  const std::string slices =
      m.slices == 1 ? tokens : fmt::format("{} slices of {}", m.slices, tokens);
  return m.prefix == Tokens(0)
             ? slices
             : fmt::format("{} after a prefix of {}", slices, grouped(m.prefix.count()));
}

}  // namespace

std::vector<double> non_negative_least_squares(const std::vector<std::vector<double>>& columns,
                                               std::span<const double> target) {
  // Coefficients differ by many orders of magnitude (per pack against per pair). Columns of unit
  // length give the tolerance the same meaning for each.
  std::vector<Vector> unit_columns;
  Vector lengths;
  for (const Vector& column : columns) {
    SLIMPACK_CHECK(column.size() == target.size());
    const double length = norm(column);
    lengths.push_back(length > 0 ? length : 1);
    Vector unit = column;
    for (double& value : unit) value /= lengths.back();
    unit_columns.push_back(std::move(unit));
  }
  Vector x = Solver(std::move(unit_columns), target).run();
  for (std::size_t j = 0; j < x.size(); ++j) x[j] /= lengths[j];
  return x;
}

FitErrors errors_of(const PackCost& cost, std::span<const LayerMeasurement> measurements) {
  const std::vector<double> times = times_of(measurements);
  const double usual = median(times);
  FitErrors errors;
  double off = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double error = std::abs(time_of(cost, measurements[i]) - times[i]);
    off += error;
    if (error / std::max(times[i], usual) <= errors.largest) continue;
    errors.largest = error / std::max(times[i], usual);
    errors.worst = i;
  }
  errors.mean = off / std::accumulate(times.begin(), times.end(), 0.0);
  return errors;
}

LayerFit fit_layer_cost(std::span<const LayerMeasurement> measurements, const FittedTerms& terms) {
  const Tokens window = terms.window;
  std::vector<double> packs;
  std::vector<double> slices;
  std::vector<double> tokens;
  std::vector<double> pairs;
  std::vector<double> prefixes;
  std::vector<double> window_pairs;
  std::vector<double> window_prefixes;
  std::vector<double> missing_rows;
  std::vector<double> units;
  const std::vector<double> times = times_of(measurements);
  for (const LayerMeasurement& m : measurements) {
    const Slice slice = slice_of(m);
    packs.push_back(1);
    slices.push_back(m.slices);
    tokens.push_back(rows_of(m));
    missing_rows.push_back(PackCost{.per_missing_row = 1}.missing_rows(rows_of(m)));
    units.push_back(std::sqrt(static_cast<double>(m.time.count())));
    pairs.push_back(m.slices * slice.causal_pairs());
    prefixes.push_back(m.slices * static_cast<double>(slice.prefix().count()));
    if (window == Tokens(0)) continue;
    window_pairs.push_back(m.slices * slice.window_pairs(window));
    window_prefixes.push_back(m.slices * static_cast<double>(slice.window_prefix(window).count()));
  }
  std::vector<std::vector<double>> features{packs, slices, tokens};
  if (terms.prefix) features.insert(features.end(), {pairs, prefixes});
  if (window > Tokens(0)) features.insert(features.end(), {window_pairs, window_prefixes});
  if (terms.missing_rows) features.push_back(missing_rows);
  const std::vector<double> x = fitted(std::move(features), times, units);
  PackCost time{.per_pack = x[0], .per_slice = x[1], .per_token = x[2], .window = window};
  if (terms.prefix) {
    time.per_pair = x[3];
    time.per_prefix_token = x[4];
  }
  if (window > Tokens(0)) {
    time.per_window_pair = x[5];
    time.per_window_prefix = x[6];
  }
  if (terms.missing_rows) time.per_missing_row = x.back();
  return {time, errors_of(time, measurements)};
}

EdgeFit fit_edge_time(std::span<const EdgeMeasurement> measurements) {
  std::vector<double> packs;
  std::vector<double> tokens;
  std::vector<double> times;
  for (const EdgeMeasurement& m : measurements) {
    packs.push_back(1);
    tokens.push_back(static_cast<double>(m.tokens.count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const std::vector<double> x = fitted({packs, tokens}, times, times);
  EdgeFit fit{{.per_pack = x[0], .per_token = x[1]}};
  for (std::size_t i = 0; i < times.size(); ++i)
    fit.largest_error =
        std::max(fit.largest_error, std::abs((x[0] + x[1] * tokens[i]) / times[i] - 1));
  return fit;
}

// A sum of squares is convex. Its minimum within bounds is its free minimum, or lies on a bound; on
// a bound one term is given and the other is fitted alone.
EdgeFit fit_part(std::span<const EdgeMeasurement> measurements, const PackCost& whole) {
  struct Errors {
    double squares = 0;
    double largest = 0;
  };
  const auto errors = [&](const EdgeTime& time) {
    Errors sum;
    for (const EdgeMeasurement& m : measurements) {
      const double fitted = time.per_pack + time.per_token * static_cast<double>(m.tokens.count());
      const double error = fitted / static_cast<double>(m.time.count()) - 1;
      sum.squares += error * error;
      sum.largest = std::max(sum.largest, std::abs(error));
    }
    return sum;
  };
  // The coefficient in [0, most] of the other term (constant or per token) that fits best with
  // `given`.
  const auto best_beside = [&](const EdgeTime& given, bool constant, double most) {
    double against = 0;
    double square = 0;
    for (const EdgeMeasurement& m : measurements) {
      const auto tokens = static_cast<double>(m.tokens.count());
      const auto measured = static_cast<double>(m.time.count());
      const double feature = (constant ? 1 : tokens) / measured;
      against += feature * (1 - (given.per_pack + given.per_token * tokens) / measured);
      square += feature * feature;
    }
    return std::clamp(against / square, 0.0, most);
  };
  const EdgeFit free = fit_edge_time(measurements);
  if (free.time.per_pack <= whole.per_pack && free.time.per_token <= whole.per_token) return free;
  EdgeTime by_pack{whole.per_pack, 0};
  by_pack.per_token = best_beside(by_pack, false, whole.per_token);
  EdgeTime by_token{0, whole.per_token};
  by_token.per_pack = best_beside(by_token, true, whole.per_pack);
  const bool first = errors(by_pack).squares <= errors(by_token).squares;
  const EdgeTime& best = first ? by_pack : by_token;
  return {best, errors(best).largest};
}

EdgeTime fit_beyond(std::span<const BeyondMeasurement> measurements) {
  const std::vector<double> packs(measurements.size(), 1);
  std::vector<double> tokens;
  std::vector<double> beyond;
  std::vector<double> times;
  for (const BeyondMeasurement& m : measurements) {
    tokens.push_back(static_cast<double>(m.tokens.count()));
    beyond.push_back(static_cast<double>((m.time - m.known).count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const std::vector<double> terms = fitted({packs, tokens}, beyond, times);
  return {.per_pack = terms[0], .per_token = terms[1]};
}

bool disturbed(const WorstFit& worst) {
  return worst.error > kLargeError && worst.measurement.spread >= kNoise * worst.error;
}

std::optional<std::string> fit_warning(const WorstFit& worst) {
  if (worst.error <= kLargeError) return std::nullopt;
  return fmt::format(
      "warning: the cost model is {} off its measurement of {} {}, whose repetitions differ by {}: "
      "{}",
      human_share(worst.error), worst.pass == Pass::kBackward ? "backward of" : "forward of",
      point_text(worst.measurement), human_share(worst.measurement.spread),
      disturbed(worst)
          ? "something else seems to run on this machine; measure again when it does not"
          : "a kernel seems to take times that the model cannot describe; expect predictions of "
            "such slices to be as far off");
}

}  // namespace slimpack
