// The context in which the parts of a decoder layer work.
#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/layer/exchanged_attention.h"
#include "slimpack/packflow/layer/pack_runs.h"
#include "slimpack/packflow/layer/row_remap.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/context_parallel.h"
#include "slimpack/spec/layer_shape.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// The inputs of both passes of a layer besides rows. References; made per action and layer.
struct LayerContext {
  const LayerShape& shape;  ///< the rank's part of the layer (tensor_parallel_part)
  double rms_norm_eps;
  LayerParameters& parameters;
  KvStore& kv;
  std::size_t layer;  ///< within the stage
  const MicroPack& pack;
  const RopeRows& rope;
  const std::vector<PackRun>& runs;  ///< of its attention
  Collective* group;                 ///< replicas that run the pack together; null = one alone
  CpCommType cp_comm_type;           ///< of these
  const RowRemap* remap;             ///< of attention's rows; null = they are where all others are
  const TensorRows& rows;            ///< its hidden states over the tensor-parallel ranks
  Recompute recompute = Recompute::kElementwise;  ///< what forward does not keep
  const AttentionExchange* exchange = nullptr;    ///< of this layer; null = none
};

}  // namespace slimpack
