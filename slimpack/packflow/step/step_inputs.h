// Step inputs: what a step trains on, and what a rank's actions read that is known before its step
// begins, on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/data/sequences.h"
#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/layer/attention_rows.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/packflow/stores/row_store.h"
#include "slimpack/plan/context_exchange.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// A sequence by row, int64.
struct SequenceTensors {
  at::Tensor tokens_L;
  at::Tensor targets_L;  ///< the token that the row predicts for the loss; kNoTarget = none
};

/// The sequences of a step by SequenceId, and the number of their targets.
struct StepTokens {
  std::vector<SequenceTensors> by_sequence;
  std::int64_t targets = 0;
};

/// Throws InvalidInput for a token outside the vocabulary.
[[nodiscard]] StepTokens make_step_tokens(std::span<const SequenceTokens> sequences,
                                          std::int64_t vocab_size);
/// All tokens are targets (all_targets).
[[nodiscard]] StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                                          std::int64_t vocab_size);

/// tokens_L and targets_L of the rows of this share.
[[nodiscard]] at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share);
[[nodiscard]] at::Tensor targets_of(const StepTokens& tokens, const PackShare& share);

/// The rank that reads the inputs: its place, and which inputs it needs.
struct InputReader {
  RowHolder holder = {};
  bool embeds = true;               ///< whether it looks up tokens
  bool heads = true;                ///< whether it has logits
  std::int32_t spread_over = 0;     ///< pipeline ranks that share a spread vocabulary
  at::Tensor like;                  ///< of the type of its queries, where the inputs go
  AttentionHeads attention = {};    ///< of the rank
  std::vector<Action> giving = {};  ///< its actions that give attention to another rank
};

/// Where a replica's rank with all its stages stands. `exchanges` are of the replica, `like` is of
/// the type of the rank's queries, where its inputs go.
[[nodiscard]] InputReader rank_reader(const Decoder& shape, const StageLayout& layout,
                                      const RankGrid& grid, const RankPlace& place,
                                      std::span<const ContextExchange> exchanges,
                                      const at::Tensor& like);

/// The inputs of one MicroPack, which outlives them.
struct PackInputs {
  const MicroPack& pack;
  at::Tensor tokens_T;                       ///< undefined on a rank that does not embed
  at::Tensor targets_T;                      ///< undefined on a rank without logits
  std::vector<PackRun> runs;                 ///< of attention
  std::optional<MemberRows> by_tensor_rank;  ///< unless the rank is alone
  /// Where the vocabulary is spread: the rows by pipeline rank, at the first and at the last stage.
  std::optional<MemberRows> at_first, at_last;
  std::optional<RemappedRows> remapped;  ///< where attention has rows of other replicas

  [[nodiscard]] std::vector<at::Tensor*> tensors();
};

class StepInputs {
 public:
  /// Copies everything to the device at once, through the calling thread's queue there; the host
  /// does not wait. On a CPU nothing is copied. `packs` outlives the object.
  StepInputs(const InputReader& reader, const PackPlan& packs, const StepTokens& tokens);

  [[nodiscard]] const PackInputs& forward(PackId pack) const { return forward_.at(pack.index()); }
  [[nodiscard]] const PackInputs& backward(PackId pack) const { return backward_.at(pack.index()); }
  /// The step's targets, on all ranks.
  [[nodiscard]] std::int64_t targets() const { return targets_; }

 private:
  std::vector<PackInputs> forward_, backward_;  ///< by PackId
  std::int64_t targets_;
};

}  // namespace slimpack
