// One rank's part of a vocabulary that is spread over its pipeline, during one step: E, H and G.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>

#include "slimpack/packflow/kernels/vocabulary.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/packflow/step/step_inputs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// All ranks of a pipeline make the same calls in the same order: each has a part of the words.
/// Hidden states lie with the first stage's ranks or with the last one's; the other ranks give and
/// get tensors without rows. Tensors that E, H and G hand over to F and B, or get from B, wait
/// here. Borrows everything. Not thread-safe.
class VocabularyStep {
 public:
  /// `shape` is the whole model's, `stages` the rank's.
  VocabularyStep(const Decoder& shape, const RankGrid& grid, const RankPlace& place,
                 std::span<StageParameters> stages, const StepInputs& inputs,
                 Communicator& communicator);

  /// E: looks up the tokens of a forward MicroPack.
  void embed(PackId forward);
  /// The embeddings that embed() has found, on the first stage's ranks.
  [[nodiscard]] at::Tensor take_embedded(PackId forward) { return take(embedded_, forward); }

  /// H: loss and gradients of a backward MicroPack. `x_TH`: the head's inputs on the last stage's
  /// ranks, elsewhere undefined. Result: Σ loss, on all ranks.
  [[nodiscard]] at::Tensor head(PackId backward, at::Tensor x_TH);
  /// The gradient of the head's inputs, on the last stage's ranks.
  [[nodiscard]] at::Tensor take_head_gradient(PackId backward) {
    return take(head_gradients_, backward);
  }
  /// Σ loss of H without gradients.
  [[nodiscard]] at::Tensor head_loss(PackId backward, at::Tensor x_TH);

  /// The gradient of E's result, on the first stage's ranks, until G.
  void put_embedding_gradient(PackId backward, at::Tensor dy_TH) {
    embedding_gradients_.emplace(backward, std::move(dy_TH));
  }
  /// G: adds to the embedding's gradient.
  void embedding_gradient(PackId backward);

  /// Whether nothing waits.
  [[nodiscard]] bool empty() const {
    return embedded_.empty() && head_gradients_.empty() && embedding_gradients_.empty();
  }

 private:
  using Waiting = std::map<PackId, at::Tensor>;

  [[nodiscard]] static at::Tensor take(Waiting& waiting, PackId pack);
  [[nodiscard]] bool first() const { return place_.pipeline == 0; }
  [[nodiscard]] bool last() const { return place_.pipeline == grid_.pipeline - 1; }
  /// `by_pipeline`: where the MicroPack's rows are.
  [[nodiscard]] TensorRows rows_of(const PackInputs& inputs,
                                   const std::optional<MemberRows>& by_pipeline) const;
  [[nodiscard]] at::Tensor or_no_rows(at::Tensor rows_TH) const;
  [[nodiscard]] Parameter& head_matrix() const;

  Decoder shape_;  ///< with the rank's words alone
  RankGrid grid_;
  RankPlace place_;
  std::span<StageParameters> stages_;
  const StepInputs& inputs_;
  Collective& group_;   ///< of all ranks that have a part of the words
  Collective* tensor_;  ///< null for a rank that is alone
  Collective& pipeline_;
  Waiting embedded_, head_gradients_, embedding_gradients_;
};

}  // namespace slimpack
