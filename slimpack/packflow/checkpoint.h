// Checkpoints that Hugging Face transformers reads: config.json and model.safetensors in a folder.
#pragma once

#include <filesystem>

#include "slimpack/packflow/engine.h"
#include "slimpack/packflow/safetensors.h"

namespace slimpack {

/// Every parameter by its Hugging Face name, in the run's compute type; copies.
[[nodiscard]] NamedTensors named_parameters(Engine& engine);

/// The gradients of the last step, likewise, in the accumulate type.
[[nodiscard]] NamedTensors named_gradients(Engine& engine);

/// Overwrites the parameters (and masters). Throws InvalidInput naming `origin` and the tensor that
/// is missing, unknown or of another shape.
void load_parameters(Engine& engine, const NamedTensors& tensors, const std::string& origin);

/// Writes config.json and model.safetensors; each appears complete or not at all.
void save_checkpoint(Engine& engine, const std::filesystem::path& folder);

}  // namespace slimpack
