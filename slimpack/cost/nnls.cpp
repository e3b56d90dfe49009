#include "slimpack/cost/nnls.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "slimpack/base/error.h"

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

}  // namespace slimpack
