#include "slimpack/report/run_bill.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slimpack {
namespace {

const KnownError kError{
    .time = 10, .worst_time = 20, .memory = 1, .times_from = "steps", .memory_from = "plans"};
// 3.6e9 tokens at 10,000 a second are 100 hours, on 8 GPUs 800 GPU-hours. At 8,000 they are 125 and
// 1,000, a quarter more.
const std::vector<RunSpeed> kRuns{{"ours", 10'000}, {"theirs", 8'000}};

TEST(RunBill, CountsHoursOfAllGpusAndTheirPrice) {
  const RunTerms terms{3.6e9, 8, 2.5};
  EXPECT_DOUBLE_EQ(run_hours(terms, kRuns[0]), 100);
  const nlohmann::ordered_json bill = to_json(RunBill{terms, kRuns, kError});
  EXPECT_EQ(bill["known_error"], 0.1);
  EXPECT_EQ(bill["runs"][0]["gpu_hours"], 800);
  EXPECT_EQ(bill["runs"][0]["cost"], 2000);
  EXPECT_EQ(bill["runs"][1]["hours"], 125);
  EXPECT_EQ(bill["runs"][1]["cost"], 2500);
  EXPECT_DOUBLE_EQ(bill["runs"][1]["more"].get<double>(), 0.25);
}

TEST(RunBill, SaysItInATableAndHowFarItMayBeOff) {
  const std::string text = bill_text({{3.6e9, 8, 2.5}, kRuns, kError}, 80);
  EXPECT_EQ(text,
            "A run of 3.6 G tokens on 8 GPUs, each 2.50 an hour:\n\n"
            "a run with     takes  GPU-hours    more  costs\n"
            "──────────  ────────  ─────────  ──────  ─────\n"
            "ours        4 d 04 h        800          2.0 k\n"
            "theirs      5 d 05 h      1.0 k  +25.0%  2.5 k\n\n"
            "Predicted times are ± 10% off on average: the first run takes 720 to 880\n"
            "GPU-hours. Stops and restarts come on top.\n");
}

TEST(RunBill, KeepsTheFirstAndSortsTheOthersBySpeed) {
  const auto runs = fastest_behind_first({{"ours", 5}, {"slow", 3}, {"fast", 9}, {"equal", 3}});
  std::string names;
  for (const RunSpeed& run : runs) names += run.name + " ";
  EXPECT_EQ(names, "ours fast slow equal ");
  EXPECT_TRUE(fastest_behind_first({}).empty());
}

TEST(RunBill, LeavesOutWhatIsNotKnown) {
  const RunTerms terms{3.6e9, 8};
  EXPECT_EQ(bill_text({terms, kRuns, kError}, 80).find("costs"), std::string::npos);
  const nlohmann::ordered_json bill = to_json(RunBill{terms, kRuns, kError});
  EXPECT_TRUE(bill["price_per_gpu_hour"].is_null());
  EXPECT_TRUE(bill["runs"][0]["cost"].is_null());
  EXPECT_TRUE(bill["runs"][0]["worst_step"].is_null());
  EXPECT_EQ(bill_text({terms, {}, kError}, 80), "");
}

TEST(RunBill, ComparesTheWorstStepWithTheMeanOne) {
  const std::vector<RunSpeed> runs{{"ours", 10'000, 1.25}, {"theirs", 8'000, 2}};
  const std::string text = bill_text({{3.6e9, 8}, runs, kError}, 80);
  EXPECT_NE(text.find("worst step ÷ mean"), std::string::npos);
  EXPECT_NE(text.find("1.25\n"), std::string::npos);
  EXPECT_EQ(to_json(RunBill{{3.6e9, 8}, runs, kError})["runs"][1]["worst_step"], 2);
}

}  // namespace
}  // namespace slimpack
