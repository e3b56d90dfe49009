// Stage tensors: what the ranks of a stage hold in pieces and shards, whole again under the public
// names.
//
// Each function is called by all ranks of all replicas of a stage at the same time, and by all
// ranks, stage by stage, where the vocabulary is spread. The first rank of a stage (replica 0,
// tensor-parallel rank 0) gets every tensor of the stage in memory of its own, the others none;
// embedding and head that are spread come to the first of all ranks. Pieces come together bucket by
// bucket: beside its result a rank holds at most twice a bucket. Copies that a tied model keeps of
// its embedding are left out.
#pragma once

#include <vector>

#include "slimpack/packflow/checkpoint/safetensors.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/communicator.h"

namespace slimpack {

/// Values of the parameters by name, in the compute type.
[[nodiscard]] NamedTensors whole_values(StageParameters& stage, Communicator& communicator);

/// Gradients of the last step by parameter's name, in the accumulate type.
[[nodiscard]] NamedTensors whole_gradients(StageParameters& stage, Communicator& communicator);

/// States of the optimizer by kind and name, in the accumulate type: "first_moment/NAME",
/// "second_moment/NAME", and "master/NAME" where values are of a narrower type.
[[nodiscard]] NamedTensors whole_optimizer_state(StageParameters& stage, Dtype dtype,
                                                 Communicator& communicator);

/// A state of the optimizer: the beginning of its tensors' names, and where a bucket has it.
struct OptimizerState {
  const char* prefix;
  at::Tensor ParameterBucket::*shard_S;
};

/// The states that a bucket has beside its values.
[[nodiscard]] std::vector<OptimizerState> optimizer_states(Dtype dtype);

}  // namespace slimpack
