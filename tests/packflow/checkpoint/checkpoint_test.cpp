// Checkpoints: what is saved comes back into the same and into other grids of ranks, and nothing
// broken is taken for a checkpoint.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>

#include "slimpack/base/folders.h"
#include "slimpack/packflow/checkpoint/checkpoint_writer.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "tests/packflow/checkpoint/two_processes.h"
#include "tests/packflow/support/random_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/expect_holds.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

using testing::engine_options;
using testing::packed_step;
using testing::random_run;
using testing::RandomRun;
using testing::small_shape;
using testing::SmallStep;

constexpr double kShare = 0.2;  // of the usual number of cases: each runs models

TrainConfig train_config() {
  TrainConfig config;
  config.learning_rate = config.min_learning_rate = 1e-2;
  config.warmup_steps = 0;
  return config;
}

void save(Engine& engine, const fs::path& folder, std::int64_t steps, std::int32_t keep = 1) {
  CheckpointWriter writer(engine, folder, keep);
  writer.save({steps, {{"note", "of the run"}}, {{"cost.json", "{}"}}});
  writer.finish();
}

Checkpoint checkpoint_at(const fs::path& folder, std::int64_t steps) {
  const fs::path path = folder / checkpoint_name(steps);
  return {path, read_checkpoint(path)};
}

void expect_equal(const NamedTensors& actual, const NamedTensors& expected) {
  RC_ASSERT(actual.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    RC_ASSERT(actual.contains(name));
    RC_ASSERT(actual.at(name).equal(tensor));
  }
}

/// Every tensor of a checkpoint, those of the optimizer too.
NamedTensors all_tensors(const Checkpoint& checkpoint) {
  NamedTensors all;
  for (const CheckpointFile& file : checkpoint.state.files)
    if (file.name.ends_with(".safetensors"))
      all.merge(read_safetensors(checkpoint.folder / file.name));
  return all;
}

TEST(Checkpoint, TrainingGoesOnBitByBit) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random = random_run(rng);
        const Dtype dtype = std::array{Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}[rng.below(3)];
        EngineOptions options = random.options(dtype);
        Engine never_stopped(options);
        options.seed = 99;  // other weights, which must not matter
        Engine resumed(options);
        const TempFolder folder;
        const auto step = [&](Engine& engine, std::int64_t s) {
          return random.run(engine, OptimizerUpdate{train_config(), s}).loss;
        };
        for (std::int64_t s = 0; s < 2; ++s) static_cast<void>(step(never_stopped, s));
        save(never_stopped, folder.path(), 2);
        load_checkpoint(resumed, checkpoint_at(folder.path(), 2));
        for (std::int64_t s = 2; s < 4; ++s) RC_ASSERT(step(resumed, s) == step(never_stopped, s));
        expect_equal(named_parameters(resumed), named_parameters(never_stopped));
      },
      kShare);
}

TEST(Checkpoint, IsTheSameWhateverTheGridOfRanks) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random = random_run(rng);
        Engine engine(random.options(Dtype::kBf16));
        static_cast<void>(random.run(engine, OptimizerUpdate{train_config(), 0}));
        const TempFolder folder;
        save(engine, folder / "one", 1);
        const Checkpoint first = checkpoint_at(folder / "one", 1);

        EngineOptions other = random.options(Dtype::kBf16);
        const auto layers = static_cast<std::int32_t>(random.shape.num_layers());
        other.layout = rng.below(2) == 0 ? StageLayout{{0, layers}} : StageLayout{{0, 1, layers}};
        other.replicas = 1 + static_cast<std::int32_t>(rng.below(3));
        other.tensor = 1 << rng.below(3);
        other.seed = 99;
        Engine another(other);
        load_checkpoint(another, first);
        save(another, folder / "two", 1);
        expect_equal(all_tensors(checkpoint_at(folder / "two", 1)), all_tensors(first));
      },
      kShare);
}

TEST(Checkpoint, OfTwoProcessesIsThatOfOne) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random = random_run(rng);
        const EngineOptions options = random.options(Dtype::kFp32);
        const TempFolder folder;
        Engine alone(options);
        save(alone, folder / "alone", 1);
        testing::in_two_processes(options, rng, [&](Engine& engine) {
          save(engine, folder / "shared", 1);
          const NamedTensors whole = named_parameters(engine);
          RC_ASSERT(whole.empty() == (engine.ranks().front() != 0));
        });
        expect_equal(all_tensors(checkpoint_at(folder / "shared", 1)),
                     all_tensors(checkpoint_at(folder / "alone", 1)));
      },
      kShare);
}

/// Two checkpoints of a small model on two stages, and what may happen to them.
class TwoCheckpoints : public ::testing::Test {
 protected:
  TwoCheckpoints() : engine_(engine_options(step(2))) {
    save(engine_, folder_.path(), 1, 2);
    save(engine_, folder_.path(), 2, 2);
  }
  static SmallStep step(std::int32_t stages) {
    return packed_step(small_shape(2), Dtype::kBf16, stages, {Tokens(9)}, Tokens(9));
  }

  /// Names of the newer one's files.
  [[nodiscard]] std::vector<std::string> files() const { return folder_entries(newer_); }

  /// The newer is passed over, with the file's name, for the older.
  void expect_passed_over(const std::string& file) {
    std::vector<std::string> lines;
    const auto found =
        newest_checkpoint(folder_.path(), [&](const std::string& line) { lines.push_back(line); });
    ASSERT_TRUE(found) << file;
    EXPECT_EQ(found->state.steps, 1) << file;
    ASSERT_EQ(lines.size(), 1u) << file;
    EXPECT_NE(lines.front().find("step-00000002"), std::string::npos) << lines.front();
    EXPECT_NE(lines.front().find(file), std::string::npos) << lines.front();
  }

  TempFolder folder_;
  fs::path newer_ = folder_ / "step-00000002";
  Engine engine_;
};

TEST_F(TwoCheckpoints, HaveTheseFilesAndTheNewerIsFound) {
  EXPECT_EQ(files(), (std::vector<std::string>{
                         "config.json", "cost.json", "model-00001-of-00002.safetensors",
                         "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                         "optimizer-00001-of-00002.safetensors",
                         "optimizer-00002-of-00002.safetensors", "training_state.json"}));
  const auto found =
      newest_checkpoint(folder_.path(), [](const std::string& line) { ADD_FAILURE() << line; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state.steps, 2);
  EXPECT_EQ(found->state.run, (nlohmann::json{{"note", "of the run"}}));
}

TEST_F(TwoCheckpoints, OneWithoutAFileIsPassedOver) {
  for (const std::string& file : files()) {
    const std::string whole = get_file(newer_ / file);
    fs::remove(newer_ / file);
    expect_passed_over(file);
    put_file(newer_ / file, whole);
  }
}

TEST_F(TwoCheckpoints, OneWithAFileCutShortIsPassedOver) {
  Rng rng(5);
  for (const std::string& file : files()) {
    const std::string whole = get_file(newer_ / file);
    // The last byte of JSON files is a line feed, which the state can do without.
    const std::size_t least = file == "training_state.json" ? 2 : 1;
    for (const std::size_t cut :
         {least, whole.size() / 2, whole.size(), rng.below(whole.size() - least) + least}) {
      put_file(newer_ / file, std::string_view(whole).substr(0, whole.size() - cut));
      expect_passed_over(file);
    }
    put_file(newer_ / file, whole);
  }
}

TEST_F(TwoCheckpoints, OneWithAnyChangedByteIsPassedOver) {
  Rng rng(6);
  for (const std::string& file : files()) {
    const std::string whole = get_file(newer_ / file);
    for (int i = 0; i < 20; ++i) {
      std::string changed = whole;
      char& byte = changed[rng.below(whole.size())];
      if (file == "training_state.json" && std::isspace(byte)) continue;  // says the same
      byte ^= static_cast<char>(1 << rng.below(7));
      put_file(newer_ / file, changed);
      expect_passed_over(file);
    }
    put_file(newer_ / file, whole);
  }
}

TEST_F(TwoCheckpoints, ABrokenOneIsRefusedWhenItIsAskedFor) {
  put_file(newer_ / "cost.json", "{ }");
  expect_invalid_input([&] { static_cast<void>(read_checkpoint(newer_)); },
                       {"cost.json", "3 bytes"});
  expect_invalid_input([&] { static_cast<void>(read_checkpoint(folder_ / "none")); },
                       {"none/training_state.json", "does not exist"});
}

TEST_F(TwoCheckpoints, ThoseOfAnotherModelOrFormatAreRefusedByTheTensor) {
  Engine fp32(engine_options(packed_step(small_shape(2), Dtype::kFp32, 1, {Tokens(9)}, Tokens(9))));
  Engine deeper(
      engine_options(packed_step(small_shape(3), Dtype::kBf16, 1, {Tokens(9)}, Tokens(9))));
  const Checkpoint checkpoint = checkpoint_at(folder_.path(), 2);
  expect_invalid_input([&] { load_checkpoint(fp32, checkpoint); }, {"step-00000002", "master/"});
  expect_invalid_input([&] { load_checkpoint(deeper, checkpoint); },
                       {"step-00000002", "model.layers.2.", "missing"});
}

TEST_F(TwoCheckpoints, OnlyTheNewestThatAreToBeKeptStay) {
  CheckpointWriter writer(engine_, folder_.path(), 3);
  for (const std::int64_t steps : {5, 6, 7, 8}) writer.save({steps, nlohmann::json::object(), {}});
  writer.finish();
  EXPECT_EQ(checkpoints_in(folder_.path()), (std::vector<std::int64_t>{6, 7, 8}));
  // Training that has gone back behind a checkpoint and saves again.
  save(engine_, folder_.path(), 7, 3);
  EXPECT_EQ(folder_entries(folder_.path()),
            (std::vector<std::string>{"step-00000006", "step-00000007"}));
  EXPECT_EQ(read_checkpoint(folder_ / "step-00000007").run.at("note"), "of the run");
}

TEST_F(TwoCheckpoints, WhatDeadRunsLeftIsRemovedAndWhatIsNoCheckpointStays) {
  put_file(folder_ / ".partial-step-00000003/model.safetensors", "half");
  put_file(folder_ / "notes.txt", "mine");
  put_file(folder_ / "step-3/notes.txt", "mine");
  EXPECT_EQ(checkpoints_in(folder_.path()), (std::vector<std::int64_t>{1, 2}));
  const CheckpointWriter writer(engine_, folder_.path(), 1);
  EXPECT_EQ(folder_entries(folder_.path()),
            (std::vector<std::string>{"notes.txt", "step-00000001", "step-00000002", "step-3"}));
}

/// Nothing can be written where the next save begins.
void block(const fs::path& folder, std::int64_t steps) {
  put_file(partial_folder(folder, steps), "a file where the folder should be");
}

TEST_F(TwoCheckpoints, AFailedSaveComesOutAndLeavesTheOthersAlone) {
  CheckpointWriter writer(engine_, folder_.path(), 2);
  block(folder_.path(), 3);
  writer.save({3, nlohmann::json::object(), {}});
  EXPECT_THROW(writer.finish(), InvalidInput);
  EXPECT_EQ(checkpoints_in(folder_.path()), (std::vector<std::int64_t>{1, 2}));
  writer.save({4, nlohmann::json::object(), {}});
  writer.finish();
  EXPECT_EQ(checkpoints_in(folder_.path()), (std::vector<std::int64_t>{2, 4}));
}

TEST_F(TwoCheckpoints, AFailedSaveIsSeenWithoutWaitingForIt) {
  CheckpointWriter writer(engine_, folder_.path(), 2);
  block(folder_.path(), 3);
  writer.save({3, nlohmann::json::object(), {}});
  const auto until_it_fails = [&] {
    for (;;) writer.require_sound();
  };
  expect_invalid_input(until_it_fails, {"step-00000003", "Not a directory", "are intact"});
  writer.finish();  // told once
}

TEST(Checkpoint, OneProcessThatCannotWriteEndsTheSaveInAll) {
  const EngineOptions options =
      engine_options(packed_step(small_shape(2), Dtype::kFp32, 2, {Tokens(9)}, Tokens(9)));
  const TempFolder folder;
  std::atomic<int> failed = 0;
  Rng rng(1);
  testing::in_two_processes(options, rng, [&](Engine& engine) {
    CheckpointWriter writer(engine, folder.path(), 1);
    static_cast<void>(named_parameters(engine));  // both have their writers now
    if (engine.ranks().front() != 0)
      put_file(partial_folder(folder.path(), 1) / "model-00002-of-00002.safetensors/in the way",
               "");
    writer.save({1, nlohmann::json::object(), {}});
    expect_invalid_input([&] { writer.finish(); }, {"model-00002-of-00002.safetensors"});
    ++failed;
  });
  EXPECT_EQ(failed, 2);
  EXPECT_TRUE(checkpoints_in(folder.path()).empty());
}

}  // namespace
}  // namespace slimpack
