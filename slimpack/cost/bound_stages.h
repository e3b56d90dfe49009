// Bound stages: what a stage table holds. Only the room cost looks inside. What depends on the
// runtime whose costs they are is virtual; `stage_table` chooses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/pack_sums.h"
#include "slimpack/cost/stage_table.h"

namespace slimpack {

/// The time of a stage's layers in one pass, and the time that merging adds to them.
struct StageLayers {
  PackCost time;
  PackCost exchange;
};

/// A replica's packs and their sums.
struct SummedPacks {
  const PackPlan& packs;
  std::vector<PackSums> forward, backward;
};

/// The parameters of a rank, and which of them are whole together where replicas share weights out.
struct RankParameters {
  ParameterCount held;
  ParameterCount bucket;  ///< the most that one exchange of PackFlow moves
  ParameterCount layer;   ///< the largest layer
  ParameterCount ends;    ///< those outside of layers
};

class BoundStages {
 public:
  BoundStages(const Costs& costs, const StageLayout& stages, RecomputeByLayer by_layer,
              Replication replicas);
  BoundStages(const BoundStages&) = delete;
  BoundStages& operator=(const BoundStages&) = delete;
  virtual ~BoundStages() = default;

  const Costs cost;
  const StageLayout layout;
  const RecomputeByLayer recompute;  ///< by layer of the model; empty = kElementwise for all
  const Replication replication;

  [[nodiscard]] Recompute recompute_of(std::int32_t layer) const {
    return slimpack::recompute_of(recompute, static_cast<std::size_t>(layer));
  }
  [[nodiscard]] std::int32_t first_layer(StageId stage) const {
    return layout.layer_begin[stage.index()];
  }
  [[nodiscard]] std::int32_t end_layer(StageId stage) const {
    return layout.layer_begin[stage.index() + 1];
  }
  /// The number of the stage's layers of one kind by recomputation, in the order of the
  /// enumeration.
  [[nodiscard]] std::array<std::int32_t, kRecomputations> layers_by_recompute(
      StageId stage, std::size_t kind) const;
  [[nodiscard]] bool splits_backward() const {
    return cost.kinds.front().weight_gradient != EdgeTime();
  }

  [[nodiscard]] virtual StageLayers layers(StageId stage, Pass pass,
                                           std::int32_t replicas) const = 0;
  /// The time that a stage takes for a MicroPack beside its layers, embedding and head.
  [[nodiscard]] virtual EdgeTime beside_layers(StageId stage, Pass pass) const = 0;
  /// StageTable::keeps_graphs, of one stage, and may_skip_forward.
  [[nodiscard]] virtual bool keeps_graphs(StageId stage) const = 0;
  [[nodiscard]] virtual bool may_skip_forward(StageId stage) const = 0;
  /// Adds the times of forward and backward, and the parts of a backward that can be split.
  virtual void add_passes(TaskTimes& times, const SummedPacks& packs, ReplicaId replica) const = 0;
  /// Adds what follows the last action of each rank. REQUIRES: the times of the passes.
  virtual void add_step_end(TaskTimes& times, const PackPlan& packs, ReplicaId replica) const = 0;
  /// StageTable::least_reduction.
  [[nodiscard]] virtual double least_reduction(double longest_last_action) const = 0;
  /// StageTable::bytes. Where the vocabulary is spread, peaks of E, H and G may be missing.
  [[nodiscard]] virtual TaskBytes bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                        Counted counted, ReplicaId replica) const = 0;
  /// StageTable::host_bytes.
  [[nodiscard]] virtual TaskBytes host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                             ReplicaId replica) const = 0;
  /// StageTable::sequence_bytes, of one stage.
  [[nodiscard]] virtual Bytes sequence_bytes(StageId stage, Tokens tokens) const = 0;
  /// StageTable::state, of a rank with these parameters.
  [[nodiscard]] virtual ModelState state(const RankParameters& rank) const = 0;
  /// Whether what travels takes memory of a rank: where it is a process with a GPU of its own.
  [[nodiscard]] virtual bool holds_what_travels() const = 0;
};

/// A run of PackFlow's layers.
class PackFlowStages final : public BoundStages {
 public:
  using BoundStages::BoundStages;

  [[nodiscard]] StageLayers layers(StageId stage, Pass pass, std::int32_t replicas) const override;
  [[nodiscard]] EdgeTime beside_layers(StageId stage, Pass pass) const override;
  [[nodiscard]] bool keeps_graphs(StageId) const override { return false; }
  [[nodiscard]] bool may_skip_forward(StageId) const override { return false; }
  void add_passes(TaskTimes& times, const SummedPacks& packs, ReplicaId replica) const override;
  void add_step_end(TaskTimes& times, const PackPlan& packs, ReplicaId replica) const override;
  [[nodiscard]] double least_reduction(double longest_last_action) const override;
  [[nodiscard]] TaskBytes bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                Counted counted, ReplicaId replica) const override;
  [[nodiscard]] TaskBytes host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                     ReplicaId replica) const override;
  [[nodiscard]] Bytes sequence_bytes(StageId stage, Tokens tokens) const override;
  [[nodiscard]] ModelState state(const RankParameters& rank) const override;
  [[nodiscard]] bool holds_what_travels() const override { return cost.device.gpu.has_value(); }
};

/// A run of a model's own layers. REQUIRES: cost.autograd, whose rules AutogradCosts says.
class AutogradStages final : public BoundStages {
 public:
  AutogradStages(const Costs& costs, const StageLayout& stages, RecomputeByLayer by_layer,
                 Replication replicas);

  [[nodiscard]] StageLayers layers(StageId stage, Pass pass, std::int32_t replicas) const override;
  [[nodiscard]] EdgeTime beside_layers(StageId stage, Pass pass) const override;
  [[nodiscard]] bool keeps_graphs(StageId stage) const override;
  [[nodiscard]] bool may_skip_forward(StageId stage) const override;
  void add_passes(TaskTimes& times, const SummedPacks& packs, ReplicaId replica) const override;
  void add_step_end(TaskTimes& times, const PackPlan& packs, ReplicaId replica) const override;
  [[nodiscard]] double least_reduction(double longest_last_action) const override;
  [[nodiscard]] TaskBytes bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                Counted counted, ReplicaId replica) const override;
  [[nodiscard]] TaskBytes host_bytes(const PackPlan& packs, const SequenceLengths& lengths,
                                     ReplicaId replica) const override;
  [[nodiscard]] Bytes sequence_bytes(StageId stage, Tokens tokens) const override;
  [[nodiscard]] ModelState state(const RankParameters& rank) const override;
  [[nodiscard]] bool holds_what_travels() const override { return false; }  // torch reduces

 private:
  [[nodiscard]] double exchange_by_layer(StageId stage, Pass pass) const;

  /// Whether a layer of the stage has kOffload: then its inputs wait in host memory.
  [[nodiscard]] bool offloads(StageId stage) const;
  /// Nanoseconds that the stage's layers with states take for one more slice of a forward
  /// MicroPack.
  [[nodiscard]] double state_slice_time(StageId stage) const;

  /// These stages where no graph is kept; null where none is anyway.
  std::unique_ptr<const AutogradStages> again_;
};

/// StageTable::stage and vocabulary.
[[nodiscard]] PackCost stage_cost(const BoundStages& bound, StageId stage, Pass pass,
                                  std::int32_t replicas = 1);
[[nodiscard]] EdgeTime vocabulary_time(const BoundStages& bound, Pass pass);
/// The time that merging adds to a layer in which attention runs once. Known are groups of 2, 4, …
/// replicas; of other sizes it is between these, or less than twice as large as the largest. Throws
/// InvalidInput where it is not known.
[[nodiscard]] PackCost merge_time(const LayerCosts& layer, Pass pass, std::int32_t replicas);

}  // namespace slimpack
