// Checkpoint writer: saves an engine's state in the background while it trains on.
//
//   1. Rank threads bring each stage's tensors together at its first rank: a copy in memory.
//   2. A thread of each process writes the files of its stages into one folder of a temporary name,
//      then a small file that says so.
//   3. In the process of rank 0 it waits for these, writes training_state.json and gives the folder
//      its name; older checkpoints go.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/safetensors.h"
#include "slimpack/packflow/step/engine.h"

namespace slimpack {

/// The parts of a checkpoint beside the engine's state.
struct CheckpointContents {
  std::int64_t steps = 0;                    ///< done
  nlohmann::json run;                        ///< TrainingState::run
  std::map<std::string, std::string> texts;  ///< further files by name
};

/// All processes of a job make the same calls in the same order, on the thread that runs the
/// engine. A save that fails throws InvalidInput where nothing can be written at its path, else
/// RunFailed; checkpoints before it are as they were.
class CheckpointWriter {
 public:
  /// Keeps the newest `keep_last` checkpoints in `folder`, which all processes share. Removes what
  /// dead runs have left there. Every checkpoint takes `model_files` along. The engine outlives the
  /// writer.
  CheckpointWriter(Engine& engine, std::filesystem::path folder, std::int32_t keep_last,
                   ModelFiles model_files = {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Completes what needs no other process; does not report a failure.
  ~CheckpointWriter();

  /// Copies the state and returns; it is written in the background, once the save before is done.
  /// Does nothing when these steps were saved last. Throws when the save before failed.
  void save(const CheckpointContents& contents);

  /// Throws once the save under way has failed in this process. Does not wait.
  void require_sound();

  /// Waits until the last save is complete, however long the files take. Throws on all processes
  /// when a stage could not be written, on that of rank 0 alone when the whole could not be
  /// published.
  void finish();

  [[nodiscard]] std::filesystem::path folder_of(std::int64_t steps) const {
    return folder_ / checkpoint_name(steps);
  }

 private:
  /// Whole tensors of one stage.
  struct StageSnapshot {
    StageId stage;
    NamedTensors values;
    NamedTensors optimizer;
  };

  [[nodiscard]] std::vector<StageSnapshot> take_snapshot();
  void write(const CheckpointContents& contents, const std::vector<StageSnapshot>& stages,
             std::promise<std::string>& written);
  void write_stage(const std::filesystem::path& folder, const StageSnapshot& stage) const;
  /// In the process of rank 0: waits for all stages and publishes the checkpoint.
  void complete(const CheckpointContents& contents) const;
  [[nodiscard]] nlohmann::json await_stage(const std::filesystem::path& announcement) const;

  Engine& engine_;
  std::filesystem::path folder_;
  std::int32_t keep_last_;
  ModelFiles model_files_;
  std::int64_t last_saved_ = -1;
  std::atomic<bool> abandoned_ = false;             ///< other processes' stages will not come
  std::shared_future<std::string> stages_written_;  ///< by this process: failure_text, or nothing
  std::future<void> writing_;  ///< of std::async, whose destructor joins the thread
};

}  // namespace slimpack
