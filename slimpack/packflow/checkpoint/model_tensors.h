// Model tensors: those of all ranks under their Hugging Face names, out of an engine and into it,
// however its ranks are laid out. All processes of a job call these functions together; every rank
// reads the pieces that it holds.
#pragma once

#include <filesystem>
#include <string>

#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/safetensors.h"
#include "slimpack/packflow/step/engine.h"

namespace slimpack {

/// Copies of every parameter, in the run's compute type, in the process that runs rank 0; elsewhere
/// none. For models that fit there twice.
[[nodiscard]] NamedTensors named_parameters(Engine& engine);

/// The gradients of the last step by the tensors' names, in the accumulate type.
[[nodiscard]] NamedTensors named_gradients(Engine& engine);

/// The tensors of a model as this program names them: without what files of older programs and of
/// tied models have beyond these. Names may lack "model." in front, and a tied model may have its
/// matrix under the name of the head. Throws InvalidInput naming `origin` and the first tensor by
/// name that is missing, unknown or of another shape, or holds no floating-point numbers.
[[nodiscard]] NamedTensors sound_tensors(NamedTensors tensors, const Decoder& shape,
                                         const std::string& origin);

/// Overwrites the parameters (and masters) with those of a model, whose types may be others: every
/// rank reads its own pieces. A tied model's tensors may have its head, too. Throws InvalidInput,
/// engine untouched, naming `origin` and the first tensor by name that is missing, unknown or of
/// another shape, or holds no floating-point numbers. Returns, in the process that runs rank 0,
/// whether all numbers that the ranks have read are finite; elsewhere true.
bool load_parameters(Engine& engine, const NamedTensors& tensors, const std::string& origin);

/// Overwrites moments, and masters where there are some, with the tensors of all stages'
/// whole_optimizer_state(); with the same rules.
void load_optimizer_state(Engine& engine, const NamedTensors& tensors, const std::string& origin);

/// Parameters, moments and masters as they were saved. Throws InvalidInput naming folder and tensor
/// when they are those of a model with other sizes or of another number format.
void load_checkpoint(Engine& engine, const Checkpoint& checkpoint);

/// The parameters of a Hugging Face model, rounded to the run's types. Returns what
/// load_parameters() does. Throws InvalidInput naming what of its config.json or which tensor is
/// not that of the engine's model.
bool load_hugging_face_model(Engine& engine, const std::filesystem::path& folder);

}  // namespace slimpack
