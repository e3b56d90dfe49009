// A whole training run, as the program and the Python package run it.
#include "slimpack/training/train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "slimpack/base/checksum.h"
#include "slimpack/base/file.h"
#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/training/small_run.h"

namespace slimpack {
namespace {

using End = TrainingResult::End;
using testing::SmallRun;

/// Keeps what it is told.
class Told final : public TrainingListener {
 public:
  void note(std::string_view topic, const std::string& text) override {
    topics.emplace_back(topic);
    lines.push_back(text);
  }
  void tokens_checked(const std::filesystem::path& /*prefix*/, Tokens checked,
                      Tokens all) override {
    tokens_left = all - checked;
  }
  void step(const StepFigures& figures, const StepPlace& place) override {
    steps.push_back(figures.step);
    EXPECT_GE(place.steps, figures.step);
    if (figures.step == stop_after) stop = true;
  }
  void evaluation(const EvaluationFigures& figures) override { evaluated.push_back(figures.step); }

  TrainingResult run(const RunConfig& config, const std::string& resume = "") {
    return train({config, resume}, *this, [this] { return stop.load(); });
  }

  std::vector<std::string> topics;
  std::vector<std::string> lines;
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

/// Runs that diverge in their second step, or in the last one, by what they do not survive.
struct Divergence {
  const char* name;
  std::vector<std::string> settings;
  bool makes_weights_infinite = true;  ///< else their gradient is, in the step after
};
const Divergence kDivergences[]{
    {"a rate beyond fp32", {"train.learning_rate=1e39", "train.min_learning_rate=1e39"}},
    {"a rate beyond bf16", {"train.learning_rate=1e39", "train.dtype=bf16"}},
    {"a divisor that is 0 in fp32", {"train.epsilon=1e-300"}},
    {"on several ranks",
     {"train.learning_rate=1e39", "parallel.pp=2", "parallel.dp=2", "parallel.tp=2"}},
    {"in virtual time", {"train.learning_rate=1e39", "parallel.pp=2", "train.clock=virtual"}},
    {"weights that are only large",
     {"train.learning_rate=1e30", "train.min_learning_rate=1e30"},
     false},
    {"weights that are only large, in fp64",
     {"train.learning_rate=1e300", "train.min_learning_rate=1e300", "train.dtype=fp64"},
     false},
};

std::vector<std::string> with(std::vector<std::string> settings,
                              const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

void expect_finite(const std::filesystem::path& checkpoints) {
  for (const std::int64_t steps : checkpoints_in(checkpoints))
    EXPECT_NO_THROW((void)read_checkpoint(checkpoints / checkpoint_name(steps)));
}

TEST(Train, NeverSavesWeightsThatAreNotFinite) {
  for (const Divergence& divergence : kDivergences) {
    SCOPED_TRACE(divergence.name);
    const SmallRun small;
    Told told;
    const auto config = small.config(
        with(divergence.settings, {"train.warmup_steps=0", "train.steps=3", "checkpoint.every=1"}));
    const auto checkpoints = config.output.dir / "checkpoints";
    expect_run_failed([&] { (void)told.run(config); },
                      {"training has diverged; lower train.learning_rate", " of 3 steps"});
    expect_finite(checkpoints);
    EXPECT_TRUE(checkpoints_in(checkpoints).empty());  // no step made weights to go on from
    EXPECT_EQ(told.steps.size(), divergence.makes_weights_infinite ? 0 : 1);
  }
}

TEST(Train, GoesOnWithALowerRateFromTheLastCheckpointThatLeadsOn) {
  for (const Divergence& divergence : kDivergences)
    for (const char* keep : {"checkpoint.keep_last=1", "checkpoint.keep_last=2"}) {
      SCOPED_TRACE(divergence.name);
      SCOPED_TRACE(keep);
      const SmallRun small;
      // The first step is a good one.
      std::vector<std::string> calm;
      for (const std::string& setting : divergence.settings)
        if (!setting.starts_with("train.learning") && !setting.starts_with("train.min") &&
            !setting.starts_with("train.epsilon"))
          calm.push_back(setting);
      const std::vector<std::string> saving{"train.warmup_steps=0", "checkpoint.every=1", keep};
      Told good;
      good.stop_after = 1;
      EXPECT_EQ(good.run(small.config(with(calm, saving))).end, End::kStopped);
      const auto config = small.config(with(divergence.settings, saving));
      const auto checkpoints = config.output.dir / "checkpoints";
      Told diverging;
      expect_run_failed([&] { (void)diverging.run(config, "auto"); },
                        {"training has diverged", "--resume auto goes on from", "step-00000001"});
      EXPECT_EQ(checkpoints_in(checkpoints), (std::vector<std::int64_t>{1}));
      EXPECT_EQ(std::filesystem::exists(checkpoints / "diverged-step-00000002"),
                !divergence.makes_weights_infinite);
      Told again;
      EXPECT_EQ(again.run(small.config(with(calm, saving)), "auto").end, End::kDone);
      EXPECT_EQ(again.steps, (std::vector<std::int64_t>{2, 3}));
      EXPECT_EQ(checkpoints_in(checkpoints).size(), keep[std::strlen(keep) - 1] - '0');
      expect_finite(checkpoints);
    }
}

TEST(Train, InItsLastStepDoesNotCountAnUpdateThatMakesInfiniteWeights) {
  const SmallRun small;
  Told told;
  const auto config =
      small.config({"train.warmup_steps=0", "train.steps=1", "train.learning_rate=1e39"});
  expect_run_failed(
      [&] { (void)told.run(config); },
      {"the update at learning rate 1e+39 made weights that are not finite", "after 0 of 1 steps"});
  EXPECT_TRUE(checkpoints_in(config.output.dir / "checkpoints").empty());
}

/// Changes a file of tensors.
void change(const std::filesystem::path& file, const std::function<void(NamedTensors&)>& work) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : read_safetensors(file)) tensors.emplace(name, tensor.clone());
  work(tensors);
  write_safetensors(file, tensors);
}

TEST(Train, TellsBadWeightsThatItIsGivenFromDivergence) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const SmallRun small;
  Told first;
  static_cast<void>(first.run(small.config({"train.steps=1"})));
  const auto folder = small.folder / "run/checkpoints/step-00000001";
  const auto config = small.config({"output.dir=" + (small.folder / "from").string()});
  change(folder / "model.safetensors",
         [&](NamedTensors& t) { t.at("model.norm.weight")[3] = nan; });
  Told told;
  expect_invalid_input(
      [&] {
        (void)train({config, "", folder}, told, [] { return false; });
      },
      {"model.safetensors", "tensor model.norm.weight holds values that are not numbers"});
  EXPECT_TRUE(told.steps.empty());
  // Finite, but no loss comes of it: no update is to blame.
  change(folder / "model.safetensors",
         [&](NamedTensors& t) { t.at("model.norm.weight").fill_(3e38); });
  expect_run_failed(
      [&] {
        (void)train({config, "", folder}, told, [] { return false; });
      },
      {"before any update", folder.string(), "not the learning rate"});
}

TEST(Train, PassesOverACheckpointWhoseWeightsAreNotFinite) {
  const SmallRun small;
  const auto config = small.config({"checkpoint.every=1", "checkpoint.keep_last=3"});
  Told told;
  static_cast<void>(told.run(config));
  // An older program saved it: sound by its checksums.
  const auto bad = config.output.dir / "checkpoints" / "step-00000003";
  TrainingState state = read_training_state(bad);
  change(bad / "model.safetensors",
         [](NamedTensors& t) { t.begin()->second.fill_(std::numeric_limits<float>::infinity()); });
  const std::string written = read_file(bad / "model.safetensors", "checkpoint");
  for (CheckpointFile& file : state.files)
    if (file.name == "model.safetensors")
      file.checksum = checksum_of(std::as_bytes(std::span(written)));
  write_file(bad / kStateFile, training_state_to_json(state));
  expect_invalid_input([&] { (void)read_checkpoint(bad); }, {"infinite values", "earlier"});
  Told again;
  EXPECT_EQ(again.run(config, "auto").end, End::kDone);
  EXPECT_EQ(again.steps, (std::vector<std::int64_t>{3}));
}

TEST(Train, RefusesDataInWhichNoTokenIsPredicted) {
  const SmallRun small;
  Told told;
  expect_invalid_input([&] { (void)told.run(small.config({"data.context=1"})); },
                       {"data.context is 1", "2 or more"});
  IndexedDatasetWriter ones(small.folder / "ones", 50);
  for (std::int32_t token = 1; token < 20; ++token) ones.append(std::vector<std::int32_t>{token});
  ones.commit();
  expect_invalid_input(
      [&] { (void)told.run(small.config({"data.prefix=" + (small.folder / "ones").string()})); },
      {"ones", "19 documents have no target"});
  EXPECT_TRUE(told.steps.empty());
}

TEST(Train, LeavesOutStepsInWhichNoTokenIsPredicted) {
  const SmallRun small;
  IndexedDatasetWriter mixed(small.folder / "mixed", 50);
  for (std::int32_t token = 1; token < 20; ++token) mixed.append(std::vector<std::int32_t>{token});
  mixed.append(std::vector<std::int32_t>{1, 2, 3});
  mixed.commit();
  // A document is a step, so that 19 of 20 have no target.
  const auto config =
      small.config({"data.prefix=" + (small.folder / "mixed").string(), "data.step_tokens=1",
                    "train.steps=4", "parallel.pp=2", "train.clock=virtual"});
  Told told;
  const TrainingResult result = told.run(config);
  ASSERT_TRUE(result.summary);
  ASSERT_EQ(result.summary->steps.size(), 4);
  for (const StepFigures& step : result.summary->steps) {
    EXPECT_GT(step.loss, 0);
    EXPECT_EQ(step.tokens, Tokens(3));
  }
  EXPECT_TRUE(std::ranges::any_of(told.lines, [](const std::string& line) {
    return line.starts_with("warning: ") &&
           line.find("no token of their steps is a target") != line.npos;
  }));
}

TEST(Train, RefusesAnOutputFolderWithTheCheckpointsOfAnotherRun) {
  const SmallRun small;
  Told told;
  EXPECT_EQ(told.run(small.config()).end, End::kDone);
  expect_invalid_input([&] { (void)told.run(small.config()); }, {"has checkpoints of an earlier"});
}

}  // namespace
}  // namespace slimpack
