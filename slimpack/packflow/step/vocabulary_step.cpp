#include "slimpack/packflow/step/vocabulary_step.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "slimpack/cost/layer_widths.h"
#include "slimpack/packflow/kernels/embedding.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

VocabularyStep::VocabularyStep(const ModelShape& shape, const RankGrid& grid,
                               const RankPlace& place, std::span<StageParameters> stages,
                               const PackPlan& packs, const StepTokens& tokens,
                               Communicator& communicator)
    : shape_(shape),
      grid_(grid),
      place_(place),
      stages_(stages),
      packs_(packs),
      tokens_(tokens),
      group_(communicator.vocabulary()),
      tensor_(grid.tensor > 1 ? &communicator.tensor() : nullptr),
      pipeline_(communicator.pipeline()) {
  // The same on all ranks, which compute logits in the same blocks of rows.
  shape_.vocab_size = share_of(shape.vocab_size, group_.size());
}

void VocabularyStep::embed(PackId forward) {
  const MicroPack& pack = packs_.forward.at(forward.index());
  at::Tensor rows_TH =
      slimpack::embed(stages_.front().embedding_VH, tokens(pack, 0), rows_at(0, pack));
  if (first()) embedded_.emplace(forward, std::move(rows_TH));
}

at::Tensor VocabularyStep::head(PackId backward, at::Tensor x_TH) {
  const MicroPack& pack = packs_.backward.at(backward.index());
  HeadResult result = parallel_head_backward(
      shape_, stages_.back().final_norm_H, head_matrix(), or_no_rows(std::move(x_TH)),
      tokens(pack, 1), tokens_.targets, rows_at(grid_.pipeline - 1, pack), group_);
  if (last()) head_gradients_.emplace(backward, std::move(result.dx_TH));
  return result.loss_sum;
}

at::Tensor VocabularyStep::head_loss(PackId backward, at::Tensor x_TH) {
  const MicroPack& pack = packs_.backward.at(backward.index());
  return slimpack::head_loss(shape_, stages_.back().final_norm_H, head_matrix(),
                             or_no_rows(std::move(x_TH)), tokens(pack, 1),
                             rows_at(grid_.pipeline - 1, pack), &group_);
}

void VocabularyStep::embedding_gradient(PackId backward) {
  const MicroPack& pack = packs_.backward.at(backward.index());
  at::Tensor dy_TH = first() ? take(embedding_gradients_, backward) : at::Tensor();
  embed_backward(stages_.front().embedding_VH, tokens(pack, 0), or_no_rows(std::move(dy_TH)),
                 rows_at(0, pack));
}

at::Tensor VocabularyStep::take(Waiting& waiting, PackId pack) {
  return std::move(waiting.extract(pack).mapped());
}

TensorRows VocabularyStep::rows_at(std::int32_t pipeline_rank, const MicroPack& pack) const {
  return {pack, place_.replica, tensor_, pipeline_, pipeline_rank, stages_.front().device()};
}

at::Tensor VocabularyStep::tokens(const MicroPack& pack, std::int64_t shift) const {
  return tokens_of(tokens_, {pack, place_.replica}, shift, stages_.front().device());
}

at::Tensor VocabularyStep::or_no_rows(at::Tensor rows_TH) const {
  if (rows_TH.defined()) return rows_TH;
  return at::empty({0, shape_.hidden_size}, stages_.front().embedding_VH.value.options());
}

/// A tied head is the embedding, of the same words on the same rank.
Parameter& VocabularyStep::head_matrix() const {
  return shape_.tie_embeddings ? stages_.front().embedding_VH : stages_.back().head_VH;
}

}  // namespace slimpack
