// Where a training run begins, as the command line says.
#pragma once

#include <filesystem>
#include <optional>

#include "apps/slimpack/training_commands.h"
#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/model_files.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct TrainingStart {
  std::optional<Checkpoint> checkpoint;  ///< goes before the other
  std::filesystem::path model;           ///< folder of a Hugging Face model; empty = random weights
};

/// OUTPUT/checkpoints.
[[nodiscard]] std::filesystem::path checkpoints_folder(const RunConfig& config);

/// Looks for the checkpoint to go on from and says on stderr which it is, which ones are passed
/// over, or that there is none. Throws InvalidInput when the named one or all are broken, and when
/// a run that does not go on from there would replace the checkpoints of another. In a job of
/// several processes (`process`) the first looks, and the others take what it has found.
[[nodiscard]] TrainingStart choose_start(const TrainArguments& arguments, const RunConfig& config,
                                         JobProcess* process);

/// What checkpoints take along of the model that training starts from: of the checkpoint, of the
/// model's folder, or of what model.config names. Throws InvalidInput for what cannot be read.
[[nodiscard]] ModelFiles files_of(const TrainingStart& start, const RunConfig& config);

}  // namespace slimpack
