// A whole training run, as the program and the Python package run it.
#include "slimpack/training/train.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/training/small_run.h"

namespace slimpack {
namespace {

using End = TrainingResult::End;
using testing::SmallRun;

/// Keeps what it is told.
class Told final : public TrainingListener {
 public:
  void note(std::string_view topic, const std::string& /*text*/) override {
    topics.emplace_back(topic);
  }
  void tokens_checked(const std::filesystem::path& /*prefix*/, Tokens checked,
                      Tokens all) override {
    tokens_left = all - checked;
  }
  void step(const StepFigures& figures, const StepPlace& place) override {
    steps.push_back(figures.step);
    EXPECT_EQ(place.steps, 3);
    if (figures.step == stop_after) stop = true;
  }
  void evaluation(const EvaluationFigures& figures) override { evaluated.push_back(figures.step); }

  TrainingResult run(const RunConfig& config, const std::string& resume = "") {
    return train({config, resume}, *this, [this] { return stop.load(); });
  }

  std::vector<std::string> topics;
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> evaluated;
  Tokens tokens_left{-1};
  std::int64_t stop_after = -1;
  std::atomic<bool> stop = false;
};

std::size_t lines_of(const std::filesystem::path& file) {
  return static_cast<std::size_t>(std::ranges::count(read_file(file, "metrics"), '\n'));
}

TEST(Train, TellsAListenerOfItsStepsAndReturnsWhatCameOfThem) {
  const SmallRun small;
  const RunConfig config = small.config(
      {"evaluation.every=2", "evaluation.prefix=" + (small.folder / "corpus").string()});
  Told told;
  const TrainingResult result = told.run(config);
  EXPECT_EQ(told.topics, (std::vector<std::string>{"model", "data", "cost"}));
  EXPECT_EQ(told.tokens_left, Tokens(0));
  EXPECT_EQ(told.steps, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(told.evaluated, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(result.end, End::kDone);
  EXPECT_EQ(result.message, "");
  ASSERT_TRUE(result.summary);
  EXPECT_EQ(result.summary->steps.size(), 3);
  EXPECT_EQ(result.summary->steps[0].tokens, Tokens(69));  // 40 + 7 + 19 + 3
  EXPECT_EQ(lines_of(config.output.dir / "metrics.jsonl"), 6);
  for (const std::filesystem::path& written : result.summary->written)
    EXPECT_TRUE(std::filesystem::exists(written)) << written;
}

TEST(Train, SaysWhichLimitEndedIt) {
  const SmallRun small;
  Told told;
  const TrainingResult result = told.run(small.config({"train.max_tokens=100"}));
  EXPECT_EQ(told.steps.size(), 2);  // 69 tokens are fewer than 100, 138 are not
  EXPECT_EQ(result.end, End::kLimit);
  EXPECT_TRUE(result.message.starts_with("train.max_tokens = 100 is reached after 2 of 3 steps"))
      << result.message;
}

TEST(Train, GoesOnFromWhereItWasStopped) {
  const SmallRun small;
  Told stopped;
  stopped.stop_after = 1;
  const TrainingResult first = stopped.run(small.config());
  EXPECT_EQ(first.end, End::kStopped);
  EXPECT_TRUE(first.message.starts_with("stopped on request after 1 of 3 steps")) << first.message;
  Told told;
  const TrainingResult second = told.run(small.config(), "auto");
  EXPECT_EQ(second.end, End::kDone);
  EXPECT_EQ(told.steps, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(told.topics.front(), "resume");
  const std::filesystem::path metrics = small.config().output.dir / "metrics.jsonl";
  EXPECT_EQ(lines_of(metrics), 3);
}

TEST(Train, StoppedBeforeItsFirstStepHasNoSummary) {
  const SmallRun small;
  Told told;
  told.stop = true;
  const TrainingResult result = told.run(small.config());
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_FALSE(result.summary);
  EXPECT_FALSE(std::filesystem::exists(small.config().output.dir / "metrics.jsonl"));
}

TEST(Train, RefusesAnOutputFolderWithTheCheckpointsOfAnotherRun) {
  const SmallRun small;
  Told told;
  EXPECT_EQ(told.run(small.config()).end, End::kDone);
  expect_invalid_input([&] { (void)told.run(small.config()); }, {"has checkpoints of an earlier"});
}

}  // namespace
}  // namespace slimpack
