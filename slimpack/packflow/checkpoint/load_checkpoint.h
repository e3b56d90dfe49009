// Weights and optimizer from disk into an engine, however its ranks are laid out. All processes of
// a job call these functions together; every rank reads the pieces that it holds.
#pragma once

#include <filesystem>

#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/step/engine.h"

namespace slimpack {

/// Parameters, moments and masters as they were saved. Throws InvalidInput naming folder and tensor
/// when they are those of a model with other sizes or of another number format.
void load_checkpoint(Engine& engine, const Checkpoint& checkpoint);

/// The parameters of a Hugging Face model, rounded to the run's types. Returns what
/// load_parameters() does. Throws InvalidInput naming what of its config.json or which tensor is
/// not that of the engine's model.
bool load_hugging_face_model(Engine& engine, const std::filesystem::path& folder);

}  // namespace slimpack
