// Stage table: the times and bytes of MicroPacks on the stages of one layout. Costs are bound to
// the layout and a recomputation once; what plans, orders, bounds and simulates asks the table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/context_exchange.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

class BoundStages;
struct Abilities;
struct Costs;

/// The replicas of a job.
struct Replication {
  /// Gradients are reduced over them, the model's state is shared out (Costs::zero).
  std::int32_t replicas = 1;
  /// [replica][rank of its pipeline], 1 = as the costs say; empty = all 1.
  std::vector<std::vector<double>> speed = {};

  /// REQUIRES: an entry for the replica, or none at all.
  [[nodiscard]] double speed_of(ReplicaId replica, std::int32_t rank) const {
    return speed.empty() ? 1.0 : speed[replica.index()][static_cast<std::size_t>(rank)];
  }
  bool operator==(const Replication&) const = default;
};

/// The bytes that a rank holds in every step, all the time. What replicas share out (Costs::zero)
/// counts as the rank's share and the largest two buckets whole.
struct ModelState {
  Bytes weights;
  Bytes gradients;  ///< in the accumulate type
  Bytes optimizer;  ///< its share of the two moments, and of the fp32 master copy in bf16
  Bytes host;       ///< of an optimizer whose states are in host memory

  /// On the device.
  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer; }
  bool operator==(const ModelState&) const = default;
};

/// An immutable value; copies share what they hold. `stage_table` makes it. Passes of stage() and
/// rank() are kForward and kBackward; their times are those at speed 1, in nanoseconds.
class StageTable {
 public:
  explicit StageTable(std::shared_ptr<const BoundStages> bound);

  [[nodiscard]] const StageLayout& layout() const;
  [[nodiscard]] const RecomputeByLayer& recompute() const;  ///< by layer of the model
  [[nodiscard]] const Replication& replication() const;

  /// Time of a MicroPack on all layers of the stage, with embedding and head unless the vocabulary
  /// is spread; of a forward that is not cut short (AutogradCosts). If `replicas` replicas run it
  /// together, each takes 1/replicas of the token, pair and prefix terms; the other terms and
  /// MergeTime stay whole. Throws InvalidInput if the costs know no merging of so many replicas.
  [[nodiscard]] PackCost stage(StageId stage, Pass pass, std::int32_t replicas = 1) const;
  /// The sum of stage() over a rank's stages, with E, or H and G, of a vocabulary that is spread.
  [[nodiscard]] PackCost rank(std::int32_t rank, Pass pass, std::int32_t replicas = 1) const;
  /// The part of a stage's backward that a split backward may put off. Zero = it cannot be split.
  [[nodiscard]] EdgeTime weight_gradient(StageId stage) const;
  [[nodiscard]] bool splits_backward() const;
  /// Time of E, H or G of a MicroPack on each rank of a pipeline that spreads the vocabulary: its
  /// part of the products, and the exchange of hidden states with the rank that has them (of the
  /// first stage, or of the last). More than three ranks share them evenly in between, so that each
  /// passes about two copies of them. REQUIRES: several ranks.
  [[nodiscard]] EdgeTime vocabulary(Pass pass) const;
  /// Time of a message between stages of so many tokens on each replica.
  [[nodiscard]] double transfer(double tokens) const;
  [[nodiscard]] Abilities abilities() const;
  [[nodiscard]] NodePlacement placement() const;
  /// Offloaded rows of one rank in pinned host memory at a time, at most: what the optimizer leaves
  /// there. 0 = no limit.
  [[nodiscard]] Bytes host_memory() const;
  /// Whether the stage can leave its part of a forward MicroPack to the backward (AutogradCosts).
  [[nodiscard]] bool may_skip_forward(StageId stage) const;
  /// Whether some stage keeps graphs from forward to backward: where a backward MicroPack has the
  /// slices of a forward one, and no others.
  [[nodiscard]] bool keeps_graphs() const;
  /// The least that is left of the reduction of gradients on the first stage after a last action
  /// of at most so many nanoseconds.
  [[nodiscard]] double least_reduction(double longest_last_action) const;
  /// The time that what replicas share out travels for one MicroPack of the pass: a MicroPack takes
  /// at least as long. 0 but with ZeRO-2 and 3.
  [[nodiscard]] double shared_state_traffic(StageId stage, Pass pass) const;

  /// Every time that orders and the simulator need, rounded to nanoseconds. Compute times are those
  /// of stage() ÷ the replica's speed. Transfers carry one hidden state per token in the run's
  /// number format. Gradients are reduced in the accumulate type, and the last backward MicroPack
  /// hides what it can (reduction.h); updated parameters are gathered in the run's number format.
  /// With ZeRO-2 and 3 a MicroPack takes at least as long as what travels for it. Throws as
  /// stage(), and for times that cannot be added up in 64 bits. Cost: O(slices + stages · packs).
  [[nodiscard]] TaskTimes times(const PackPlan& packs, ReplicaId replica = ReplicaId(0)) const;

  /// Activation bytes of one rank on each stage, as the runtime's tests measure them.
  ///  - Tensor parallelism: rows are those of one rank (its heads and its share of the MLP; hidden
  ///    states are split by tokens). Gathered tensors count whole.
  ///  - A merged MicroPack counts the replica's share of rows, keys and values and, while it runs,
  ///    the visiting tensors of one other replica at a time, those of the next one, and what the
  ///    last one's gave. Where slices have zones of their own, `replica` says whose share that is;
  ///    what several zones hold while they take turns counts together, which is more than they hold
  ///    at any one time.
  ///  - Layers keep what the recomputation lets them. Recomputed tensors count in the layer that
  ///    runs.
  ///  - The fields of split backwards are filled only where splits_backward().
  ///  - What travels counts only where add_in_flight adds it.
  /// `lengths` are indexed by the packs' SequenceIds. Throws InvalidInput for more bytes than 64
  /// bits count. Cost: O(stages · (slices + packs · changes of recomputation between its layers)).
  [[nodiscard]] TaskBytes bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                Counted counted = Counted::kAll,
                                ReplicaId replica = ReplicaId(0)) const;
  /// Adds what travels to the peaks of actions; nothing where ranks have no GPUs of their own, or
  /// run a model's own layers, which torch reduces.
  ///  - Messages, at all actions: for each neighbour of the rank, kHeldSends that leave, and one
  ///    that comes. A message that leaves stays until the other rank has it; those count that are
  ///    largest together. One that comes has its memory before it is sent; inputs count it only
  ///    once it has been sent (TaskBytes::forward_input). The largest counts.
  ///  - Gradients, at the last action of the rank's first stage: those of the other replicas for
  ///    the rank's own shard of every layer; in large groups copies of what is sent, and parts of
  ///    what the rank sums for others. Sums begin as the stage's layers complete, or after the
  ///    action if it sends an output. The slowest replica may be late for all of them.
  /// REQUIRES: bytes() of a replica.
  void add_in_flight(TaskBytes& bytes, Counted counted = Counted::kAll) const;
  /// Pinned host memory of one rank: offloaded rows, held as long as rows on a device are. All
  /// other fields are 0; those of split backwards are filled as by bytes(). Throws and costs as
  /// that.
  [[nodiscard]] TaskBytes host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                     ReplicaId replica = ReplicaId(0)) const;
  /// Bytes of rows, keys and values that a rank of the pipeline holds on its stages for `tokens`
  /// tokens between their forward and their backward. Every plan holds this for a whole sequence at
  /// some moment. Throws as bytes().
  [[nodiscard]] Bytes sequence_bytes(std::int32_t rank, Tokens tokens) const;
  /// The state of a rank of the pipeline with all its stages. Replicas share out the optimizer's
  /// part, with ZeRO-2 gradients, too, and with ZeRO-3 also weights.
  [[nodiscard]] ModelState state(std::int32_t rank) const;
  /// Gradients as add_in_flight adds them to a rank: every plan has them at some moment.
  [[nodiscard]] Bytes gradients_in_flight(std::int32_t rank) const;

  /// Changes times and bytes of the two actions of each exchange. In each layer both start their
  /// own attention at once. The taker then runs the giver's queries, once they have arrived; the
  /// giver waits for the result if it comes after its own part. A split backward exchanges in its
  /// input gradients. Not counted: stages of unlike layers come to a shared layer at different
  /// times. REQUIRES: Abilities::exchanges_attention; exchanges as check_schedule accepts them.
  void add_exchanges(ReplicaPacks& replica, std::span<const ContextExchange> exchanges,
                     ReplicaId id = ReplicaId(0)) const;
  /// How much longer all ranks of a replica together compute because of what every MicroPack and
  /// every slice takes by itself (without_overheads). Throws as times(). Cost: that of times(),
  /// twice.
  [[nodiscard]] Nanos overhead_time(const PackPlan& packs, ReplicaId replica = ReplicaId(0)) const;

  /// This table with every rank at speed 1.
  [[nodiscard]] StageTable at_speed_1() const;
  /// This table with another recomputation for all layers.
  [[nodiscard]] StageTable recomputing(Recompute everywhere) const;
  /// This table, with replicas that share MicroPacks at no cost. Bounds by it hold for plans that
  /// move rows, too: a sequence's rows and its attention are then divided among as many as the plan
  /// divides either.
  [[nodiscard]] StageTable with_free_sharing() const;
  /// This table, with attention over query–key pairs that takes `share` of its time.
  [[nodiscard]] StageTable with_attention(double share) const;

  /// Whether both are bound to equal costs, layouts, recomputations and replicas.
  bool operator==(const StageTable& other) const;

 private:
  std::shared_ptr<const BoundStages> bound_;
};

/// The costs of the stages of a layout. `recompute`: by layer of the model; empty = kElementwise
/// for all. Copies its arguments. Cost: O(layers).
/// REQUIRES: an entry of `recompute` for every layer, or none; speeds for every rank, or none.
[[nodiscard]] StageTable stage_table(const Costs& cost, const StageLayout& layout,
                                     RecomputeByLayer recompute = {}, Replication replication = {});

}  // namespace slimpack
