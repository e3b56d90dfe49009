#include "slimpack/cost/fit.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"

namespace slimpack {
namespace {

double time_of(const PackCost& t, const LayerMeasurement& m) {
  const auto q = static_cast<double>(m.tokens.count());
  const auto prefix = static_cast<double>(m.prefix.count());
  const double pairs = q * prefix + q * (q + 1) / 2;
  return t.per_pack +
         m.slices *
             (t.per_slice + t.per_token * q + t.per_pair * pairs + t.per_prefix_token * prefix) +
         t.per_missing_row * std::max(0.0, 512 - m.slices * q);
}

/// The grid that a profile measures, with times computed from `truth`.
std::vector<LayerMeasurement> grid(const PackCost& truth) {
  std::vector<LayerMeasurement> measurements;
  for (const int slices : {1, 4}) {
    for (const int tokens : {128, 512, 2048}) {
      for (const int prefix : {0, 1024, 8192}) {
        LayerMeasurement m{Tokens(tokens), Tokens(prefix), slices, Nanos(0)};
        m.time = Nanos(std::llround(time_of(truth, m)));
        measurements.push_back(m);
      }
    }
  }
  return measurements;
}

TEST(Fit, RecoversTheCoefficientsBehindExactTimes) {
  const PackCost truth{60000, 5000, 2000, 3, 40};  // integers: no time is rounded
  const auto fit = fit_layer_cost(grid(truth));
  EXPECT_NEAR(fit.time.per_pack, truth.per_pack, 1e-6 * truth.per_pack);
  EXPECT_NEAR(fit.time.per_slice, truth.per_slice, 1e-6 * truth.per_slice);
  EXPECT_NEAR(fit.time.per_token, truth.per_token, 1e-6 * truth.per_token);
  EXPECT_NEAR(fit.time.per_pair, truth.per_pair, 1e-6 * truth.per_pair);
  EXPECT_NEAR(fit.time.per_prefix_token, truth.per_prefix_token, 1e-6 * truth.per_prefix_token);
  EXPECT_LT(fit.errors.largest, 1e-9);
  EXPECT_LT(fit.errors.mean, 1e-9);
}

TEST(Fit, RecoversWhatMicroPacksOfFewRowsLose) {
  PackCost truth{60000, 5000, 2000, 3, 40};
  truth.per_missing_row = 700;
  const auto measurements = grid(truth);
  const auto fit = fit_layer_cost(measurements, {.missing_rows = true});
  EXPECT_NEAR(fit.time.per_missing_row, 700, 1e-3);
  EXPECT_NEAR(fit.time.per_pack, 60000, 0.1);
  EXPECT_LT(fit.errors.largest, 1e-9);
  // Without the term nothing describes them.
  EXPECT_GT(fit_layer_cost(measurements).errors.largest, 0.01);
}

RC_GTEST_PROP(Fit, IsNeverFurtherFromNoisyTimesThanTheTruthIs, (std::uint64_t seed)) {
  const auto coefficient = [](int low, int high) {
    return static_cast<double>(*rc::gen::inRange(low, high));
  };
  const PackCost truth{coefficient(0, 100000), coefficient(0, 9000), coefficient(100, 3000),
                       coefficient(1, 9), coefficient(0, 90)};
  auto measurements = grid(truth);
  Rng rng(seed);
  for (auto& m : measurements) {
    const double noise = 0.97 + 0.06 * rng.uniform();
    m.time = Nanos(std::llround(static_cast<double>(m.time.count()) * noise));
  }
  const auto fit = fit_layer_cost(measurements);
  for (const double c : {fit.time.per_pack, fit.time.per_slice, fit.time.per_token,
                         fit.time.per_pair, fit.time.per_prefix_token}) {
    RC_ASSERT(c >= 0 && std::isfinite(c));
  }
  // The fit minimises the sum of squared errors ÷ times, and the truth is one of its choices.
  double sum_fit = 0;
  double sum_truth = 0;
  double off = 0;
  double all = 0;
  for (const auto& m : measurements) {
    const auto measured = static_cast<double>(m.time.count());
    sum_fit += std::pow(time_of(fit.time, m) - measured, 2) / measured;
    sum_truth += std::pow(time_of(truth, m) - measured, 2) / measured;
    off += std::abs(time_of(fit.time, m) - measured);
    all += measured;
  }
  RC_ASSERT(sum_fit <= sum_truth * (1 + 1e-9));
  RC_ASSERT(std::abs(fit.errors.mean - off / all) < 1e-9);
}

TEST(Fit, CountsMicroPacksByTheirTime) {
  // Only the constant can tell them apart. Of 100 and 400 ns, c is least in (c − 100)² ÷ 100 +
  // (c − 400)² ÷ 400: c = 2 ÷ (1/100 + 1/400) = 160. Off by 60 and 240 of 500; the median is 250.
  const std::vector<LayerMeasurement> same = {{Tokens(600), Tokens(0), 1, Nanos(100)},
                                              {Tokens(600), Tokens(0), 1, Nanos(400)}};
  const auto fit = fit_layer_cost(same);
  EXPECT_NEAR(time_of(fit.time, same[0]), 160, 1e-6);
  EXPECT_NEAR(fit.errors.mean, 300.0 / 500, 1e-9);
  EXPECT_NEAR(fit.errors.largest, 240.0 / 400, 1e-9);
  EXPECT_EQ(fit.errors.worst, 1U);
  // A short MicroPack's error is held against the median.
  const FitErrors of_others =
      errors_of(fit.time, std::vector<LayerMeasurement>{{Tokens(600), Tokens(0), 1, Nanos(10)},
                                                        {Tokens(600), Tokens(0), 1, Nanos(200)}});
  EXPECT_NEAR(of_others.largest, 150.0 / 105, 1e-9);
  EXPECT_EQ(of_others.worst, 0U);
}

TEST(Fit, StaysCloseToTheTruthUnderThreePercentOfNoise) {
  const PackCost truth{60000, 5000, 2000, 3, 40};
  auto measurements = grid(truth);
  Rng rng(7);
  for (auto& m : measurements) {
    m.time =
        Nanos(std::llround(static_cast<double>(m.time.count()) * (0.97 + 0.06 * rng.uniform())));
  }
  const auto fit = fit_layer_cost(measurements);
  // Between the measured points, too, the fit is off by no more than the noise.
  for (const int tokens : {256, 1024}) {
    for (const int prefix : {512, 4096}) {
      const LayerMeasurement m{Tokens(tokens), Tokens(prefix), 2, Nanos(0)};
      EXPECT_NEAR(time_of(fit.time, m) / time_of(truth, m), 1.0, 0.03) << tokens << ' ' << prefix;
    }
  }
}

TEST(Fit, GivesNoNegativeCoefficientToTimesThatFallWithLength) {
  const std::vector<EdgeMeasurement> falling = {{Tokens(100), Nanos(2000)},
                                                {Tokens(200), Nanos(1000)}};
  // per_token = 0; the constant c minimises (c/2000 − 1)² + (c/1000 − 1)²: c = 1200, 40% off.
  const auto fit = fit_edge_time(falling);
  EXPECT_EQ(fit.time.per_token, 0);
  EXPECT_NEAR(fit.time.per_pack, 1200, 1e-6);
  EXPECT_NEAR(fit.largest_error, 0.4, 1e-9);
}

TEST(Fit, CountsShortTimesAsMuchAsLongOnes) {
  // A line through 2 µs at 1 token, and 1 ms and 1.5 ms at 1,000 tokens. The last two leave some
  // error c at 1,000: (c − 1)² + (c/1.5 − 1)² is least at c = 15/13 ms. The first point is then met
  // exactly, although a fit of absolute errors would lose nothing by missing it.
  const std::vector<EdgeMeasurement> points = {
      {Tokens(1), Nanos(2000)}, {Tokens(1000), Nanos(1000000)}, {Tokens(1000), Nanos(1500000)}};
  const auto fit = fit_edge_time(points);
  EXPECT_NEAR(fit.time.per_pack + fit.time.per_token, 2000, 1e-3);
  EXPECT_NEAR(fit.time.per_pack + 1000 * fit.time.per_token, 15e6 / 13, 1e-3);
  EXPECT_NEAR(fit.largest_error, 3.0 / 13, 1e-9);  // 10/13 of 1.5 ms
}

TEST(Fit, OneMeasurementIsMatchedExactly) {
  const auto fit = fit_edge_time(std::vector<EdgeMeasurement>{{Tokens(64), Nanos(640)}});
  EXPECT_NEAR(fit.time.per_pack + 64 * fit.time.per_token, 640, 1e-9);
}

double squares(const EdgeTime& time, const std::vector<EdgeMeasurement>& points) {
  double sum = 0;
  for (const EdgeMeasurement& m : points)
    sum += std::pow((time.per_pack + time.per_token * static_cast<double>(m.tokens.count())) /
                            static_cast<double>(m.time.count()) -
                        1,
                    2);
  return sum;
}

TEST(Fit, APartIsThatOfAnyEdgeWhereTheWholeLeavesItRoom) {
  const std::vector<EdgeMeasurement> points = {{Tokens(1), Nanos(102)}, {Tokens(100), Nanos(300)}};
  const auto fit = fit_part(points, PackCost{.per_pack = 100.5, .per_token = 2.5});
  EXPECT_NEAR(fit.time.per_pack, 100, 1e-6);  // 102 = 100 + 2, 300 = 100 + 200
  EXPECT_NEAR(fit.time.per_token, 2, 1e-9);
  EXPECT_LT(fit.largest_error, 1e-9);
}

TEST(Fit, APartTakesNoMoreThanTheWholeInEitherTerm) {
  // Times are 1 + tokens, but the whole has no constant: (t/2 − 1)² + (3t/4 − 1)² is least at
  // t = (1/2 + 3/4) / (1/4 + 9/16) = 20/13, which is 10/13 of the first time.
  const std::vector<EdgeMeasurement> points = {{Tokens(1), Nanos(2)}, {Tokens(3), Nanos(4)}};
  const auto without = fit_part(points, PackCost{.per_pack = 0, .per_token = 9});
  EXPECT_EQ(without.time.per_pack, 0);
  EXPECT_NEAR(without.time.per_token, 20.0 / 13, 1e-9);
  EXPECT_NEAR(without.largest_error, 1 - 10.0 / 13, 1e-9);
  // A part of a whole that takes nothing takes nothing.
  EXPECT_EQ(fit_part(points, PackCost{}).time, EdgeTime());
  EXPECT_EQ(fit_part(points, PackCost{}).largest_error, 1);
}

RC_GTEST_PROP(Fit, NoPartWithinTheWholeIsCloser, (std::uint64_t seed)) {
  Rng rng(seed);
  std::vector<EdgeMeasurement> points(2 + rng.below(4));
  for (EdgeMeasurement& m : points)
    m = {Tokens(1 + static_cast<std::int64_t>(rng.below(50))),
         Nanos(1 + static_cast<std::int64_t>(rng.below(1000)))};
  const PackCost whole{.per_pack = 300 * rng.uniform(), .per_token = 20 * rng.uniform()};
  const auto fit = fit_part(points, whole);
  RC_ASSERT(fit.time.per_pack >= 0 && fit.time.per_pack <= whole.per_pack);
  RC_ASSERT(fit.time.per_token >= 0 && fit.time.per_token <= whole.per_token);
  for (int i = 0; i < 200; ++i) {
    const EdgeTime other{whole.per_pack * rng.uniform(), whole.per_token * rng.uniform()};
    RC_ASSERT(squares(fit.time, points) <= squares(other, points) * (1 + 1e-9));
  }
}

TEST(Fit, AnExchangeIsWhatMergedMicroPacksTakeBeyondTheShares) {
  // 300 + 2 · tokens beyond the share, whatever that is.
  const auto exchange = fit_beyond(std::vector<BeyondMeasurement>{
      {Tokens(100), Nanos(5000), Nanos(5500)}, {Tokens(1000), Nanos(40000), Nanos(42300)}});
  EXPECT_NEAR(exchange.per_pack, 300, 1e-6);
  EXPECT_NEAR(exchange.per_token, 2, 1e-9);
}

TEST(Fit, AnExchangeIsNotMadeOfNoise) {
  // Shares that came out too small by as much as others came out too large: nothing is left.
  const EdgeTime none = fit_beyond(std::vector<BeyondMeasurement>{
      {Tokens(100), Nanos(900), Nanos(1000)}, {Tokens(100), Nanos(1100), Nanos(1000)}});
  EXPECT_NEAR(none.per_pack, 0, 1e-9);
  EXPECT_NEAR(none.per_token, 0, 1e-9);
  // 100 and −50 of the same 1,000: their mean is 25.
  const EdgeTime some = fit_beyond(std::vector<BeyondMeasurement>{
      {Tokens(100), Nanos(900), Nanos(1000)}, {Tokens(100), Nanos(1050), Nanos(1000)}});
  EXPECT_NEAR(some.per_pack + 100 * some.per_token, 25, 1e-9);
  // Never less than nothing.
  const std::vector<BeyondMeasurement> faster{{Tokens(100), Nanos(1100), Nanos(1000)}};
  EXPECT_EQ(fit_beyond(faster), EdgeTime());
}

TEST(Fit, RefusesNoMeasurementsAndTimesOfZero) {
  EXPECT_THROW((void)fit_beyond({}), InternalError);
  EXPECT_THROW((void)fit_beyond(std::vector<BeyondMeasurement>{{Tokens(1), Nanos(1), Nanos(0)}}),
               InternalError);
  EXPECT_THROW((void)fit_part({}, PackCost{}), InternalError);
  EXPECT_THROW((void)fit_edge_time({}), InternalError);
  EXPECT_THROW((void)fit_edge_time(std::vector<EdgeMeasurement>{{Tokens(1), Nanos(0)}}),
               InternalError);
}

}  // namespace
}  // namespace slimpack
