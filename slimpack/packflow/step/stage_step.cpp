#include "slimpack/packflow/step/stage_step.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/vocabulary.h"
#include "slimpack/packflow/layer/recompute_rows.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

namespace {

std::vector<RowShare> shares_by_sequence(const PackPlan& packs, const SequenceLengths& lengths,
                                         ReplicaId replica) {
  std::vector<RowShare> shares(lengths.size());
  for (const MicroPack& pack : packs.forward)
    for (std::size_t s = 0; s < pack.slices.size(); ++s)
      shares[pack.slices[s].sequence.index()] = PackShare(pack, replica).in_attention().of(s);
  return shares;
}

/// By sequence, the backward pack that frees its keys and values: that of its first slice. None
/// where the kernel takes one sequence a call.
std::vector<PackId> freeing_packs(const PackPlan& packs, const SequenceLengths& lengths,
                                  const at::Tensor& like, const LayerShape& layer) {
  if (!takes_several_sequences(like, attention_heads(layer))) return {};
  std::vector<PackId> freed_by(lengths.size(), PackId(-1));
  for (std::size_t p = 0; p < packs.backward.size(); ++p)
    for (const Slice& slice : packs.backward[p].slices)
      if (slice.begin == Tokens(0))
        freed_by[slice.sequence.index()] = PackId(static_cast<std::int32_t>(p));
  return freed_by;
}

}  // namespace

InputReader reader_of(const Decoder& shape, const StagePlace& place,
                      const StageParameters& parameters) {
  return {
      .holder = place.holder,
      .embeds = place.embeds(),
      .heads = place.heads(),
      .like = parameters.buckets.front().values_N,
      .attention = attention_heads(tensor_parallel_part(shape.kinds.front(), place.holder.tensor))};
}

StageStep::StageStep(const Decoder& shape, StagePlace place, StageParameters& parameters,
                     const Rope& rope, const PackPlan& packs, const SequenceLengths& lengths,
                     const StepInputs& inputs, RecomputeByLayer recompute,
                     Communicator* communicator)
    : shape_(tensor_parallel_part(shape, place.holder.tensor)),
      place_(place),
      parameters_(parameters),
      rope_(rope),
      inputs_(inputs),
      recompute_(std::move(recompute)),
      communicator_(communicator),
      rows_(packs, parameters.layers.size() + (place.last ? 1 : 0), place.holder,
            offloading_layers(recompute_)),
      kv_(shape_.kinds.front(), lengths, parameters.layers.size(),
          shares_by_sequence(packs, lengths, place.holder.replica),
          freeing_packs(packs, lengths, parameters.buckets.front().values_N, shape_.kinds.front())),
      put_off_(packs.backward.size(), WeightGradients(WeightGradients::When::kLater)),
      loss_sum_(at::zeros({}, at::dtype(at::kDouble).device(parameters.device()))) {}

at::Tensor StageStep::run_forward(const PackInputs& inputs, const TensorRows& rows, at::Tensor x_TH,
                                  const AttentionExchange* exchange, const LayerDone& done) {
  if (place_.embeds()) x_TH = embed(parameters_.embedding_VH, inputs.tokens_T, rows);
  const ActionInput input = action_input(inputs, rows, exchange);
  for (std::size_t l = 0; l < parameters_.layers.size(); ++l) {
    LayerForward result = layer_forward(layer_context(l, input), x_TH);
    done(l, std::move(result.rows));
    x_TH = std::move(result.y_TH);
  }
  return x_TH;
}

at::Tensor StageStep::forward(PackId id, at::Tensor x_TH, const AttentionExchange* exchange) {
  const PackInputs& inputs = inputs_.forward(id);
  x_TH = run_forward(
      inputs, rows_of(inputs), std::move(x_TH), exchange,
      [&](std::size_t layer, LayerRows kept) { rows_.put(id, layer, std::move(kept)); });
  rows_.settle();
  if (!place_.last) return x_TH;
  keep_head_inputs(id, std::move(x_TH));
  return {};
}

void StageStep::keep_head_inputs(PackId forward, at::Tensor x_TH) {
  LayerRows head_input;
  head_input.x_TH = std::move(x_TH);
  rows_.put(forward, parameters_.layers.size(), std::move(head_input));
}

at::Tensor StageStep::head_inputs(PackId backward) {
  return rows_.gather(backward, parameters_.layers.size()).joined.x_TH;
}

void StageStep::release_head_inputs(PackId backward) {
  rows_.release(backward, parameters_.layers.size());
}

at::Tensor StageStep::evaluate(PackId id, at::Tensor x_TH) {
  const PackInputs& inputs = inputs_.forward(id);
  const TensorRows rows = rows_of(inputs);
  x_TH =
      run_forward(inputs, rows, std::move(x_TH), nullptr, [&](std::size_t layer, const LayerRows&) {
        for (const Slice& slice : inputs.pack.slices) kv_.release_forward(layer, slice);
      });
  if (!place_.last) return x_TH;
  if (!place_.heads()) {
    keep_head_inputs(id, std::move(x_TH));
    return {};
  }
  add_loss(head_loss(shape_, parameters_.final_norm_H, parameters_.head(), x_TH, *inputs.targets,
                     rows, tensor()));
  return {};
}

at::Tensor StageStep::backward(PackId id, at::Tensor dy_TH, const AttentionExchange* exchange,
                               const BucketsComplete& complete) {
  WeightGradients now(WeightGradients::When::kNow);
  return run_backward(id, std::move(dy_TH), exchange, now, complete);
}

at::Tensor StageStep::input_gradients(PackId id, at::Tensor dy_TH,
                                      const AttentionExchange* exchange) {
  return run_backward(id, std::move(dy_TH), exchange, put_off_.at(id.index()), {});
}

void StageStep::weight_gradients(PackId id, const BucketsComplete& complete) {
  put_off_.at(id.index()).run(rows_of(inputs_.backward(id)), complete);
  if (complete) complete(parameters_.buckets.size());
}

at::Tensor StageStep::run_backward(PackId id, at::Tensor dy_TH, const AttentionExchange* exchange,
                                   WeightGradients& weights, const BucketsComplete& complete) {
  const PackInputs& inputs = inputs_.backward(id);
  const TensorRows rows = rows_of(inputs);
  const std::size_t layers = parameters_.layers.size();
  // Offloaded rows come while the head runs, then while the layer after them runs.
  rows_.prefetch(id, layers - 1);
  if (place_.heads()) {
    HeadResult result = run_head(id, rows);
    add_loss(result.loss_sum);
    dy_TH = std::move(result.dx_TH);
  }
  const ActionInput input = action_input(inputs, rows, exchange);
  for (std::size_t l = layers; l-- > 0;) {
    BackwardRows kept = rows_.gather(id, l);
    if (l > 0) rows_.prefetch(id, l - 1);
    dy_TH = layer_backward(layer_context(l, input), std::move(kept), dy_TH, weights);
    rows_.release(id, l);
    if (complete) complete(parameters_.layers[l].qkv_OH.bucket + 1);
  }
  if (!place_.embeds()) return dy_TH;
  embed_backward(parameters_.embedding_VH, inputs.tokens_T, dy_TH, rows);
  if (complete) complete(parameters_.buckets.size());
  return {};
}

HeadResult StageStep::run_head(PackId backward, const TensorRows& rows) {
  const HeadTargets& targets = *inputs_.backward(backward).targets;
  const at::Tensor x_TH = head_inputs(backward);
  HeadResult result =
      rows.alone()
          ? head_backward(shape_, parameters_.final_norm_H, parameters_.head(), x_TH, targets)
          : parallel_head_backward(shape_, parameters_.final_norm_H, parameters_.head(), x_TH,
                                   targets, rows, *tensor());
  release_head_inputs(backward);
  return result;
}

void StageStep::add_loss(const at::Tensor& loss_sum) {
  // Every tensor-parallel rank has the whole loss.
  if (place_.holder.index == 0) loss_sum_.add_(loss_sum);
}

double StageStep::loss_sum() const {
  return loss_sum_.item<double>();
}

void StageStep::require_drained() const {
  SLIMPACK_CHECK(rows_.empty(), "rows were kept that no backward MicroPack used");
  SLIMPACK_CHECK(kv_.empty(),
                 "keys and values were kept of a sequence that did not run to its end");
  SLIMPACK_CHECK(std::ranges::all_of(put_off_, &WeightGradients::empty),
                 "weight gradients were put off and never run");
}

StageStep::ActionInput StageStep::action_input(const PackInputs& inputs, const TensorRows& rows,
                                               const AttentionExchange* exchange) const {
  const MicroPack& pack = inputs.pack;
  ActionInput input{inputs, rows, rope_.rows(PackShare(pack, place_.holder.replica).in_attention()),
                    std::nullopt, exchange};
  if (inputs.remapped) input.remap.emplace(*inputs.remapped, communicator_->context(pack.replicas));
  return input;
}

LayerContext StageStep::layer_context(std::size_t layer, const ActionInput& input) {
  // Between layers too: an action of long slices can take many seconds.
  if (communicator_ != nullptr) communicator_->require_peers();
  const MicroPack& pack = input.of_pack.pack;
  return {.shape = shape_.layer(static_cast<std::size_t>(place_.first_layer) + layer),
          .rms_norm_eps = shape_.rms_norm_eps,
          .parameters = parameters_.layers[layer],
          .kv = kv_,
          .layer = layer,
          .pack = pack,
          .rope = input.rope,
          .runs = input.of_pack.runs,
          .group = pack.replicas > 1 ? &communicator_->context(pack.replicas) : nullptr,
          .cp_comm_type = place_.cp_comm_type,
          .remap = input.remap ? &*input.remap : nullptr,
          .rows = input.rows,
          .recompute = recompute_of(recompute_, layer),
          .exchange = input.exchange != nullptr && layer < input.exchange->layers ? input.exchange
                                                                                  : nullptr};
}

}  // namespace slimpack
