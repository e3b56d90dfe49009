#include "slimpack/cost/fit.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

namespace slimpack {
namespace {

using Columns = std::vector<std::vector<double>>;

double squared_residual(const Columns& columns, const std::vector<double>& target,
                        const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t row = 0; row < target.size(); ++row) {
    double rest = target[row];
    for (std::size_t j = 0; j < columns.size(); ++j) rest -= x[j] * columns[j][row];
    sum += rest * rest;
  }
  return sum;
}

/// Least squares over the columns whose bit is set in `active`, by the normal equations and Gauss's
/// elimination; nothing when they are dependent.
std::optional<std::vector<double>> solve_active(const Columns& columns,
                                                const std::vector<double>& target,
                                                unsigned active) {
  std::vector<std::size_t> used;
  for (std::size_t j = 0; j < columns.size(); ++j) {
    if (active >> j & 1U) used.push_back(j);
  }
  const std::size_t n = used.size();
  std::vector<std::vector<long double>> m(n, std::vector<long double>(n + 1, 0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t row = 0; row < target.size(); ++row) {
      const long double a = columns[used[i]][row];
      for (std::size_t k = 0; k < n; ++k) m[i][k] += a * columns[used[k]][row];
      m[i][n] += a * target[row];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i; k < n; ++k) {
      if (std::abs(m[k][i]) > std::abs(m[pivot][i])) pivot = k;
    }
    if (std::abs(m[pivot][i]) < 1e-9L) return std::nullopt;
    std::swap(m[i], m[pivot]);
    for (std::size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const long double factor = m[k][i] / m[i][i];
      for (std::size_t c = i; c <= n; ++c) m[k][c] -= factor * m[i][c];
    }
  }
  std::vector<double> x(columns.size(), 0.0);
  for (std::size_t i = 0; i < n; ++i) x[used[i]] = static_cast<double>(m[i][n] / m[i][i]);
  return x;
}

/// The optimum has some set of positive coefficients and solves least squares over it: try all.
double brute_force(const Columns& columns, const std::vector<double>& target) {
  double best = squared_residual(columns, target, std::vector<double>(columns.size(), 0.0));
  for (unsigned active = 1; active < 1U << columns.size(); ++active) {
    const auto x = solve_active(columns, target, active);
    if (!x) continue;
    bool feasible = true;
    for (const double value : *x) feasible = feasible && value >= 0;
    if (feasible) best = std::min(best, squared_residual(columns, target, *x));
  }
  return best;
}

RC_GTEST_PROP(Nnls, IsAsGoodAsTheBestOfAllActiveSets, ()) {
  const auto rows = *rc::gen::inRange<std::size_t>(1, 9);
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  const auto numbers = rc::gen::container<std::vector<double>>(
      rows, rc::gen::map(rc::gen::inRange(-20, 21), [](int i) { return static_cast<double>(i); }));
  const auto columns = *rc::gen::container<Columns>(count, numbers);
  const auto target = *numbers;
  const auto x = non_negative_least_squares(columns, target);
  RC_ASSERT(x.size() == count);
  for (const double value : x) RC_ASSERT(value >= 0 && std::isfinite(value));
  const double best = brute_force(columns, target);
  RC_LOG() << "brute force " << best << ", found " << squared_residual(columns, target, x);
  RC_ASSERT(squared_residual(columns, target, x) <= best + 1e-7);
}

TEST(Nnls, LeavesOutAColumnThatWouldHelpOnlyNegatively) {
  // Unconstrained: target = 2·a − 1·b. With b at 0: x = a·t / a·a = (2·1 + 1·1) / 2 = 1.5.
  const Columns columns = {{1, 1}, {0, 1}};
  const auto x = non_negative_least_squares(columns, std::vector<double>{2, 1});
  EXPECT_DOUBLE_EQ(x[0], 1.5);
  EXPECT_EQ(x[1], 0);
}

TEST(Nnls, CopesWithZeroColumnsAndEqualColumns) {
  const Columns columns = {{0, 0}, {3, 3}, {3, 3}};
  const auto x = non_negative_least_squares(columns, std::vector<double>{6, 6});
  EXPECT_EQ(x[0], 0);
  EXPECT_DOUBLE_EQ(x[1] + x[2], 2);
}

TEST(Nnls, IsExactAcrossTwelveOrdersOfMagnitude) {
  // Columns as in calibration: a constant, and pairs of up to 10^9.
  const Columns columns = {{1, 1, 1}, {1e3, 1e6, 1e9}};
  std::vector<double> target;
  for (std::size_t row = 0; row < 3; ++row) target.push_back(5e4 + 3e-3 * columns[1][row]);
  const auto x = non_negative_least_squares(columns, target);
  EXPECT_NEAR(x[0], 5e4, 1e-6);
  EXPECT_NEAR(x[1], 3e-3, 1e-14);
}

}  // namespace
}  // namespace slimpack
