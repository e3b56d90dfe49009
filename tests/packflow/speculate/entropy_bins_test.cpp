// Entropy bins: the fit against brute force, and their file.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/packflow/speculate/entropy_bins.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using Records = std::vector<EntropyRecord>;

double variance(const Records& records) {
  double mean = 0, sum = 0;
  for (const auto& r : records)
    mean += static_cast<double>(r.rank) / static_cast<double>(records.size());
  for (const auto& r : records) {
    const double off = static_cast<double>(r.rank) - mean;
    sum += off * off;
  }
  return sum / static_cast<double>(records.size());
}

/// Tries every threshold between two entropies. `levels` of splits; appends all thresholds.
void brute_force(const Records& records, int levels, std::size_t per_bin,
                 std::set<double>& thresholds) {
  if (levels == 0) return;
  std::set<double> entropies;
  for (const auto& r : records) entropies.insert(r.entropy);
  double best = std::numeric_limits<double>::infinity(), threshold = 0;
  Records best_low, best_high;
  for (auto at = entropies.begin(); std::next(at) != entropies.end(); ++at) {
    const double middle = (*at + *std::next(at)) / 2;
    Records low, high;
    for (const auto& r : records) (r.entropy <= middle ? low : high).push_back(r);
    const std::size_t least = per_bin * (levels == 3 ? 4 : levels == 2 ? 2 : 1);
    if (low.size() < least || high.size() < least) continue;
    const double sum = variance(low) + variance(high);
    if (sum < best - 1e-9) best = sum, threshold = middle, best_low = low, best_high = high;
  }
  thresholds.insert(threshold);
  brute_force(best_low, levels - 1, per_bin, thresholds);
  brute_force(best_high, levels - 1, per_bin, thresholds);
}

TEST(EntropyBins, AreThoseOfBruteForce) {
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    Records records;
    const std::uint64_t count = 40 + rng.below(400);
    for (std::uint64_t i = 0; i < count; ++i) {
      const double entropy = 8 * rng.uniform();
      records.push_back({entropy, 1 + static_cast<std::int64_t>(
                                          rng.below(2 + static_cast<std::uint64_t>(6 * entropy)))});
    }
    std::set<double> expected;
    brute_force(records, 3, (count + 99) / 100, expected);
    const auto thresholds = fit_entropy_bins(records);
    ASSERT_EQ(expected.size(), thresholds.size());
    std::size_t i = 0;
    for (const double threshold : expected) EXPECT_EQ(thresholds[i++], threshold);
  }
}

TEST(EntropyBins, EveryBinHasAHundredthOfTheRecords) {
  // Single records far off at both ends are what unweighted variances would cut off.
  Records records;
  for (int i = 0; i < 1000; ++i)
    records.push_back({static_cast<double>(i), i == 0 || i == 999 ? 60 : 1 + i % 7});
  EntropyBins bins;
  bins.thresholds = fit_entropy_bins(records);
  std::vector<int> sizes(EntropyBins::kBins);
  for (const auto& r : records) ++sizes[bins.bin(r.entropy)];
  EXPECT_GE(*std::ranges::min_element(sizes), 10);
}

TEST(EntropyBins, ABinHoldsItsUpperThreshold) {
  const EntropyBins bins{.base = {}, .thresholds = {1, 2, 3, 4, 5, 6, 7}};
  EXPECT_EQ(bins.bin(0), 0U);
  EXPECT_EQ(bins.bin(1), 0U);
  EXPECT_EQ(bins.bin(1.5), 1U);
  EXPECT_EQ(bins.bin(7), 6U);
  EXPECT_EQ(bins.bin(100), 7U);
}

TEST(EntropyBins, TooFewOrTooEqualRecordsAreRefused) {
  expect_invalid_input([] { (void)fit_entropy_bins({}); },
                       {"0 records", "8 bins", "record more answers"});
  const Records equal(500, EntropyRecord{1.5, 3});
  expect_invalid_input([&] { (void)fit_entropy_bins(equal); }, {"500 records", "8 bins"});
}

TEST(EntropyBins, TheirFileGivesThemBack) {
  const TempFolder folder;
  const EntropyBins bins{{5, 40, 8}, {0.1, 1.0 / 3, 2, 2, 3.5, 4, 1e300}};
  write_entropy_bins(bins, folder / "heterospec.json");
  EXPECT_EQ(read_entropy_bins(folder / "heterospec.json"), bins);
}

TEST(EntropyBins, BadFilesAreRefused) {
  const TempFolder folder;
  const auto file = folder / "heterospec.json";
  const std::string good =
      R"({"format": "slimpack-heterospec", "version": 1, "depth": 6, "rows": 60, "width": 10, )"
      R"("entropy_thresholds": [1, 2, 3, 4, 5, 6, 7]})";
  const auto expect_refused = [&](const std::string& from, const std::string& to,
                                  std::string_view why) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos);
    put_file(file, text.replace(text.find(from), from.size(), to));
    expect_invalid_input([&] { (void)read_entropy_bins(file); }, {"heterospec.json", why});
  };
  expect_invalid_input([&] { (void)read_entropy_bins(file); }, {"heterospec.json", "entropy bins"});
  expect_refused("{", "", "heterospec.json");
  expect_refused("slimpack-heterospec", "slimpack-plan", "format");
  expect_refused("\"version\": 1", "\"version\": 2", "version");
  expect_refused("\"depth\": 6", "\"depth\": 41", "depth");
  expect_refused("\"rows\": 60", "\"rows\": 1", "rows");
  expect_refused("\"width\": 10", "\"wide\": 10", "width");
  expect_refused(", 7]", "]", "must be 7 ascending numbers");
  expect_refused("[1, 2", "[2, 1", "must be 7 ascending numbers");
  expect_refused("[1, 2", "[\"1\", 2", "must be 7 ascending numbers");
  put_file(file, good);
  EXPECT_EQ(read_entropy_bins(file).base, TreeSize());
}

}  // namespace
}  // namespace slimpack
