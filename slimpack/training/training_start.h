// Where a training run begins: from a checkpoint, from a model's weights, or from nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/model_files.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

struct TrainingStart {
  std::optional<Checkpoint> checkpoint;  ///< goes before the other
  std::filesystem::path model;           ///< folder of a Hugging Face model; empty = random weights
};

/// OUTPUT/checkpoints.
[[nodiscard]] std::filesystem::path checkpoints_folder(const RunConfig& config);

/// Looks for the checkpoint to go on from (`resume`: "auto" or the folder of one; empty = none);
/// where there is none, training starts from the model in the folder `init` (empty = random
/// weights). Tells `listener` which checkpoint it is, which ones are passed over, or that there is
/// none. Throws InvalidInput when the named one or all are broken, and when a run that does not go
/// on from there would replace the checkpoints of another. In a job of several processes the first
/// looks, and the others take what it has found.
[[nodiscard]] TrainingStart choose_start(const std::string& resume,
                                         const std::filesystem::path& init, const RunConfig& config,
                                         const JobAgreement& agreement, TrainingListener& listener);

/// What checkpoints take along of the model that training starts from: of the checkpoint, of the
/// model's folder, or of what model.config names. Throws InvalidInput for what cannot be read.
[[nodiscard]] ModelFiles files_of(const TrainingStart& start, const RunConfig& config);

}  // namespace slimpack
