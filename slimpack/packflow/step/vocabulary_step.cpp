#include "slimpack/packflow/step/vocabulary_step.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "slimpack/cost/layer_memory.h"
#include "slimpack/packflow/kernels/vocabulary.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

VocabularyStep::VocabularyStep(const Decoder& shape, const RankGrid& grid, const RankPlace& place,
                               std::span<StageParameters> stages, const StepInputs& inputs,
                               Communicator& communicator)
    : shape_(shape),
      grid_(grid),
      place_(place),
      stages_(stages),
      inputs_(inputs),
      group_(communicator.vocabulary()),
      tensor_(grid.tensor > 1 ? &communicator.tensor() : nullptr),
      pipeline_(communicator.pipeline()) {
  // The share is the same on all ranks, which compute logits in the same blocks of rows.
  shape_.vocab_size = share_of(shape.vocab_size, group_.size());
}

void VocabularyStep::embed(PackId forward) {
  const PackInputs& inputs = inputs_.forward(forward);
  at::Tensor rows_TH = slimpack::embed(stages_.front().embedding_VH, inputs.tokens_T,
                                       rows_of(inputs, inputs.at_first));
  if (first()) embedded_.emplace(forward, std::move(rows_TH));
}

at::Tensor VocabularyStep::head(PackId backward, at::Tensor x_TH) {
  const PackInputs& inputs = inputs_.backward(backward);
  HeadResult result = parallel_head_backward(shape_, stages_.back().final_norm_H, head_matrix(),
                                             or_no_rows(std::move(x_TH)), *inputs.targets,
                                             rows_of(inputs, inputs.at_last), group_);
  if (last()) head_gradients_.emplace(backward, std::move(result.dx_TH));
  return result.loss_sum;
}

at::Tensor VocabularyStep::head_loss(PackId backward, at::Tensor x_TH) {
  const PackInputs& inputs = inputs_.backward(backward);
  return slimpack::head_loss(shape_, stages_.back().final_norm_H, head_matrix(),
                             or_no_rows(std::move(x_TH)), *inputs.targets,
                             rows_of(inputs, inputs.at_last), &group_);
}

void VocabularyStep::embedding_gradient(PackId backward) {
  const PackInputs& inputs = inputs_.backward(backward);
  at::Tensor dy_TH = first() ? take(embedding_gradients_, backward) : at::Tensor();
  embed_backward(stages_.front().embedding_VH, inputs.tokens_T, or_no_rows(std::move(dy_TH)),
                 rows_of(inputs, inputs.at_first));
}

at::Tensor VocabularyStep::take(Waiting& waiting, PackId pack) {
  return std::move(waiting.extract(pack).mapped());
}

TensorRows VocabularyStep::rows_of(const PackInputs& inputs,
                                   const std::optional<MemberRows>& by_pipeline) const {
  const GroupRows by_tensor =
      tensor_ != nullptr ? GroupRows{tensor_, &*inputs.by_tensor_rank} : GroupRows();
  return TensorRows(by_tensor, {&pipeline_, &*by_pipeline});
}

at::Tensor VocabularyStep::or_no_rows(at::Tensor rows_TH) const {
  if (rows_TH.defined()) return rows_TH;
  return at::empty({0, shape_.hidden_size()}, stages_.front().embedding_VH.value.options());
}

/// A tied head is the embedding, of the same words on the same rank.
Parameter& VocabularyStep::head_matrix() const {
  return shape_.tie_embeddings ? stages_.front().embedding_VH : stages_.back().head_VH;
}

}  // namespace slimpack
