// Runs a whole training run, from the lock of its output folder to the last checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/world.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/run_summary.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

struct TrainRequest {
  RunConfig config;
  std::string resume = {};  ///< "auto" or the folder of a checkpoint; empty = from the first step
  std::filesystem::path init = {};  ///< folder of a Hugging Face model; empty = random weights
  bool against_packed = false;  ///< run the last step's documents again, also under fixed packing
  /// The program with its version that report.html names as its maker; empty = no report.html.
  std::string report = {};
  /// Starts the module slimpack.log of the Python package (LogOrder::command); for output.log.
  std::vector<std::string> log_command = {};
};

/// How a run ended.
struct TrainingResult {
  enum class End { kDone, kLimit, kStopped };
  End end = End::kDone;
  std::string message = {};  ///< one line: why it ended before its last step; empty for kDone
  /// Present if the run made a step, in the first process only.
  std::optional<RunSummary> summary = {};
};

/// Trains and evaluates until the last step, a limit or a stop request. Writes metrics.jsonl,
/// the files of the last step (run/step_files.h) and checkpoints to output.dir. `process`: this
/// process of a job of several, of which the first writes and tells `listener`; null = all ranks
/// are threads of this process. Any thread may call `should_stop`. Throws InvalidInput for input
/// that cannot be trained on, and RunFailed if the run fails. It saves the steps done before it
/// throws.
[[nodiscard]] TrainingResult train(const TrainRequest& request, TrainingListener& listener,
                                   const std::function<bool()>& should_stop,
                                   JobProcess* process = nullptr);

}  // namespace slimpack
