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
#include "slimpack/packflow/kernels/vocabulary.h"
#include "slimpack/packflow/layer/attention_rows.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/packflow/stores/row_store.h"
#include "slimpack/plan/context_exchange.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Target of a row without one: a token that the loss does not count, or the last of a sequence.
inline constexpr std::int64_t kNoTarget = -1;

/// A sequence by row.
struct SequenceTensors {
  at::Tensor tokens_L;   ///< int64
  at::Tensor targets_L;  ///< the token that the row predicts for the loss; kNoTarget = none
  at::Tensor weights_L;  ///< of the targets, fp64, above 0; undefined = 1 each
};

/// The sequences of a step by SequenceId, and their targets. The loss is divided by `weight`.
struct StepTokens {
  std::vector<SequenceTensors> by_sequence;
  std::int64_t targets = 0;
  double weight = 0;  ///< Σ weights of the targets; 0 = there is none
};

/// `kind` kDocument: a target's weight is its share of the weights of its sequence, so that
/// `weight` is the number of sequences that have a target. Throws InvalidInput for a token outside
/// the vocabulary, and for a target's weight that is no finite number above 0.
[[nodiscard]] StepTokens make_step_tokens(std::span<const SequenceTokens> sequences,
                                          std::int64_t vocab_size,
                                          LossKind kind = LossKind::kToken);
/// All tokens are targets (all_targets).
[[nodiscard]] StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                                          std::int64_t vocab_size);

/// tokens_L of the rows of this share.
[[nodiscard]] at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share);
/// The rows of this share that the head runs on: those that have a target, or all where almost all
/// have one. `like`: of the compute type.
[[nodiscard]] HeadTargets targets_of(const StepTokens& tokens, const PackShare& share,
                                     const at::Tensor& like);

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
  std::optional<HeadTargets> targets;        ///< unless the rank has no logits
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

 private:
  std::vector<PackInputs> forward_, backward_;  ///< by PackId
};

}  // namespace slimpack
