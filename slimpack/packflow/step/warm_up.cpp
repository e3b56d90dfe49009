#include "slimpack/packflow/step/warm_up.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/packflow/step/step_tokens.h"

namespace slimpack {
namespace {

constexpr Tokens kLength(32);
constexpr std::size_t kDocuments = 2;  // a kernel of its own takes several

PackPlan one_pack(Tokens length) {
  MicroPack pack;
  for (std::size_t s = 0; s < kDocuments; ++s)
    pack.slices.push_back({SequenceId(static_cast<std::int32_t>(s)), Tokens(0), length});
  return {.forward = {pack}, .backward = {pack}};
}

}  // namespace

void warm_up(const EngineOptions& options, const RankPlace& place,
             std::span<StageParameters> parameters, const Rope& rope) {
  const Tokens length = std::min(kLength, options.context);
  if (length < Tokens(2)) return;
  const RankGrid grid = options.grid();
  // A rank's part of the layers runs like a model of its own.
  const Decoder part = tensor_parallel_part(options.shape, grid.tensor);
  const PackPlan packs = one_pack(length);
  const SequenceLengths lengths(kDocuments, length);
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(length.count()), 0);
  const StepTokens tokens = make_step_tokens({kDocuments, zeros}, part.vocab_size);
  const at::Tensor rows_TH =
      at::zeros({static_cast<std::int64_t>(kDocuments) * length.count(), part.hidden_size()},
                at::dtype(compute_type(options.dtype)).device(options.device));
  for (std::size_t s = 0; s < parameters.size(); ++s) {
    const StageId stage_id = grid.placement.stage(place.pipeline, static_cast<std::int32_t>(s));
    const bool whole = !grid.spread_vocabulary;  // else embedding and head need the other ranks
    const StagePlace alone{.first = whole && stage_id.value() == 0,
                           .last = whole && stage_id.value() == grid.stages() - 1,
                           .first_layer = options.layout.layer_begin[stage_id.index()]};
    const StepInputs inputs(reader_of(part, alone, parameters[s]), packs, tokens);
    StageStep stage(part, alone, parameters[s], rope, packs, lengths, inputs);
    static_cast<void>(stage.forward(PackId(0), alone.first ? at::Tensor() : rows_TH));
    static_cast<void>(stage.backward(PackId(0), alone.last ? at::Tensor() : rows_TH));
  }
  zero_gradients(parameters);
  finish_queue(options.device);
}

}  // namespace slimpack
