// Where a training run begins: at a checkpoint, with a model's weights, or with random weights.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

struct TrainingStart {
  std::optional<Checkpoint> checkpoint;  ///< takes precedence over `model`
  std::filesystem::path model;           ///< folder of a Hugging Face model; empty = random weights
};

/// OUTPUT/checkpoints.
[[nodiscard]] std::filesystem::path checkpoints_folder(const RunConfig& config);

/// Finds the checkpoint to resume. `resume`: "auto", or the checkpoint's folder; empty = none.
/// Without a checkpoint, training starts from the model in the folder `init` (empty = random
/// weights). Tells `listener` the chosen checkpoint and the skipped ones, or that there is none.
/// Throws InvalidInput if the named checkpoint or all of them are broken, and if the run would
/// replace another run's checkpoints without resuming it. In a job of several processes the first
/// one looks, and the others take its result.
[[nodiscard]] TrainingStart choose_start(const std::string& resume,
                                         const std::filesystem::path& init, const RunConfig& config,
                                         const JobAgreement& agreement, TrainingListener& listener);

/// The files that checkpoints copy from the model at the start: from the checkpoint's folder, else
/// the model's folder, else that of model.config. A chat template beside the dataset takes the
/// place of theirs: what was trained answers by it. Throws InvalidInput for unreadable files.
[[nodiscard]] ModelFiles files_of(const TrainingStart& start, const RunConfig& config);

}  // namespace slimpack
