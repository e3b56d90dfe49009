// One pipeline stage during one step: runs the forward and backward of MicroPacks on tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/kernels/vocabulary.h"
#include "slimpack/packflow/layer/decoder_layer.h"
#include "slimpack/packflow/layer/weight_gradients.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/step/step_inputs.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "slimpack/packflow/stores/row_store.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/context_parallel.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// Where a stage stands in the model, on which rank, and what it shares with other ranks.
struct StagePlace {
  bool first = true;
  bool last = true;
  RowHolder holder = {};
  bool spread_vocabulary = false;
  CpCommType cp_comm_type = CpCommType::kDirect;
  std::int32_t first_layer = 0;  ///< the model's number of the stage's first layer

  /// Whether the stage has the embedding, or the head, whole.
  [[nodiscard]] bool embeds() const { return first && !spread_vocabulary; }
  [[nodiscard]] bool heads() const { return last && !spread_vocabulary; }
};

/// A rank that has this stage alone, which is not spread. `shape` is the whole model's.
[[nodiscard]] InputReader reader_of(const Decoder& shape, const StagePlace& place,
                                    const StageParameters& parameters);

/// Owns the step's row and key/value stores; borrows everything else, which must outlive it.
/// `shape` is the whole model's, `recompute` by layer of the stage. Without a communicator nothing
/// may be merged and the rank is its stage's only one. Calls must
/// follow a schedule that check_schedule accepts. Not thread-safe: one rank, one stage.
class StageStep {
 public:
  StageStep(const Decoder& shape, StagePlace place, StageParameters& parameters, const Rope& rope,
            const PackPlan& packs, const SequenceLengths& lengths, const StepInputs& inputs,
            RecomputeByLayer recompute = {}, Communicator* communicator = nullptr);

  /// Runs the stage's layers on a forward MicroPack. `x_TH` comes from the stage before, or from
  /// the spread vocabulary's embedding; undefined on a stage that embeds. The result goes to the
  /// next (undefined on the last, which keeps it). `exchange`: of the action's attention.
  [[nodiscard]] at::Tensor forward(PackId pack, at::Tensor x_TH,
                                   const AttentionExchange* exchange = nullptr);

  /// Runs a backward MicroPack; on a stage with the head, that and loss come first. `dy_TH` comes
  /// from the next stage, or from the spread vocabulary's head; undefined on a stage with the head.
  /// The result goes to the stage before, or to the spread embedding; undefined on a stage that
  /// embeds. If it is the step's last action to add to gradients, `complete` is told of each bucket
  /// as soon as it is complete.
  [[nodiscard]] at::Tensor backward(PackId pack, at::Tensor dy_TH,
                                    const AttentionExchange* exchange = nullptr,
                                    const BucketsComplete& complete = {});

  /// backward() without the gradients of the layers' linear maps; their operands are kept until
  /// weight_gradients() of the MicroPack, which adds them and frees the operands; `complete` as for
  /// backward().
  [[nodiscard]] at::Tensor input_gradients(PackId pack, at::Tensor dy_TH,
                                           const AttentionExchange* exchange = nullptr);
  void weight_gradients(PackId pack, const BucketsComplete& complete = {});

  /// forward() where no backward comes: keeps no rows but a spread head's inputs, frees keys and
  /// values with a sequence's last slice, and on a stage with the head adds to the loss.
  [[nodiscard]] at::Tensor evaluate(PackId pack, at::Tensor x_TH);

  /// The inputs of the head for a backward MicroPack, kept until they are released. REQUIRES: the
  /// last stage; its forwards have run.
  [[nodiscard]] at::Tensor head_inputs(PackId backward);
  void release_head_inputs(PackId backward);
  /// Adds a loss that a spread head has found.
  void add_loss(const at::Tensor& loss_sum);

  /// Σ loss over the rows that have run backward or were evaluated; 0 on all but the last stage.
  [[nodiscard]] double loss_sum() const;

  /// Throws InternalError if anything is left in the stores: some row never ran backward, some
  /// sequence was not evaluated to its end, or weight gradients that were put off did not run.
  void require_drained() const;

  [[nodiscard]] StagePlace place() const { return place_; }
  [[nodiscard]] KvStore& kv() { return kv_; }

 private:
  /// Runs the stage's layers on a MicroPack; each one's rows are handed to `done` after it.
  using LayerDone = std::function<void(std::size_t layer, LayerRows rows)>;
  [[nodiscard]] at::Tensor run_forward(const PackInputs& inputs, const TensorRows& rows,
                                       at::Tensor x_TH, const AttentionExchange* exchange,
                                       const LayerDone& done);
  [[nodiscard]] at::Tensor run_backward(PackId pack, at::Tensor dy_TH,
                                        const AttentionExchange* exchange, WeightGradients& weights,
                                        const BucketsComplete& complete);
  /// The stage's tensor-parallel ranks; null for a rank that is alone.
  [[nodiscard]] Collective* tensor() const {
    return place_.holder.tensor > 1 ? &communicator_->tensor() : nullptr;
  }
  [[nodiscard]] TensorRows rows_of(const PackInputs& inputs) const {
    return place_.holder.tensor > 1 ? TensorRows({tensor(), &*inputs.by_tensor_rank})
                                    : TensorRows();
  }
  [[nodiscard]] HeadResult run_head(PackId backward, const TensorRows& rows);
  void keep_head_inputs(PackId forward, at::Tensor x_TH);
  /// The inputs that all layers of an action need, made once.
  struct ActionInput {
    const PackInputs& of_pack;
    const TensorRows& rows;
    RopeRows rope;
    std::optional<RowRemap> remap;
    const AttentionExchange* exchange;
  };
  [[nodiscard]] ActionInput action_input(const PackInputs& inputs, const TensorRows& rows,
                                         const AttentionExchange* exchange) const;
  [[nodiscard]] LayerContext layer_context(std::size_t layer, const ActionInput& input);

  Decoder shape_;  ///< the rank's part
  StagePlace place_;
  StageParameters& parameters_;
  const Rope& rope_;
  const StepInputs& inputs_;
  RecomputeByLayer recompute_;
  Communicator* communicator_;
  RowStore rows_;
  KvStore kv_;
  std::vector<WeightGradients> put_off_;  ///< by backward pack
  at::Tensor loss_sum_;
};

}  // namespace slimpack
