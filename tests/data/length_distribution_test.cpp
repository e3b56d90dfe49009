#include "slimpack/data/length_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

constexpr int kDraws = 20'000;

std::vector<double> draws(const std::string& text) {
  const LengthDistribution distribution = parse_length_distribution(text, "--distribution");
  Rng rng(1);
  std::vector<double> values;
  for (int i = 0; i < kDraws; ++i) values.push_back(distribution.draw(rng));
  return values;
}

/// The share of draws above a value. Its standard deviation is at most 0.5 / √20,000 = 0.0035.
double share_above(const std::vector<double>& values, double value) {
  return static_cast<double>(
             std::ranges::count_if(values, [&](double drawn) { return drawn > value; })) /
         kDraws;
}

constexpr double kError = 0.015;  // four standard deviations

TEST(LengthDistribution, DrawsLogarithmsThatAreNormal) {
  // Half of the normal distribution is above its mean, 15.87% one deviation above it, 2.28% two.
  const std::vector<double> values = draws("log-normal:7,1.5");
  EXPECT_NEAR(share_above(values, std::exp(7)), 0.5, kError);
  EXPECT_NEAR(share_above(values, std::exp(8.5)), 0.1587, kError);
  EXPECT_NEAR(share_above(values, std::exp(10)), 0.0228, kError);
}

TEST(LengthDistribution, DrawsTailsOfPareto) {
  // P(length > x) = (256 / x)^1.1: 0.4665 above 512, 0.1015 above 2,048.
  const std::vector<double> values = draws("pareto:256,1.1");
  EXPECT_EQ(share_above(values, 255.999), 1);
  EXPECT_NEAR(share_above(values, 512), 0.4665, kError);
  EXPECT_NEAR(share_above(values, 2048), 0.1015, kError);
}

TEST(LengthDistribution, DrawsEvenlyBetweenTwoLengths) {
  const std::vector<double> values = draws("uniform:100,500");
  EXPECT_EQ(share_above(values, 99.999), 1);
  EXPECT_EQ(share_above(values, 500), 0);
  EXPECT_NEAR(share_above(values, 200), 0.75, kError);
}

TEST(LengthDistribution, DrawsDocumentsUntilTheTokensAreReached) {
  Rng rng(1);
  // 100 and 100 are short of 250; the third passes it.
  EXPECT_EQ(drawn_documents(parse_length_distribution("uniform:100,100", ""), rng, Tokens(250)),
            std::vector<Tokens>(3, Tokens(100)));
  // e^0.4 = 1.49 is rounded down; e^20 · 10^… is cut at what a dataset's document can have.
  EXPECT_EQ(drawn_documents(parse_length_distribution("log-normal:0.4,0", ""), rng, Tokens(2)),
            std::vector<Tokens>(2, Tokens(1)));
  for (const Tokens length :
       drawn_documents(parse_length_distribution("pareto:1,0.01", ""), rng, Tokens(1'000'000)))
    EXPECT_TRUE(length >= Tokens(1) && length <= Tokens(2'147'483'647));
}

TEST(LengthDistribution, RefusesWhatIsNone) {
  const auto parse = [](const char* text) {
    return [=] { (void)parse_length_distribution(text, "--distribution"); };
  };
  expect_invalid_input(parse("normal:1,2"),
                       {"--distribution", "\"normal:1,2\"", "log-normal:7.5,1.9"});
  expect_invalid_input(parse(""), {"is no distribution"});
  for (const char* text :
       {"log-normal", "log-normal:", "log-normal:7", "log-normal:7,", "log-normal:7,x",
        "log-normal:7,1,2", "log-normal:nan,1", "log-normal:1e9,1", "log-normal:7,-1"})
    expect_invalid_input(parse(text), {text, "log-normal:MEAN,DEVIATION"});
  for (const char* text : {"pareto:0,1.1", "pareto:256,0", "pareto:256,inf"})
    expect_invalid_input(parse(text), {text, "SHORTEST ≥ 1"});
  for (const char* text : {"uniform:0,5", "uniform:6,5"})
    expect_invalid_input(parse(text), {text, "1 ≤ SHORTEST ≤ LONGEST"});
}

}  // namespace
}  // namespace slimpack
