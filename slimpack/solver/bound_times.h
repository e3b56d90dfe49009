// Bound times: times that no plan of a step undercuts, whatever its cuts and orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/plan/slice.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {

/// Nanoseconds that a further slice of a sequence adds to a rank's load.
struct SliceLoads {
  double forward = 0;
  double backward = 0;
};

/// Nanoseconds before rounding. Passes are forward, backward and the input gradients of backward:
/// the part that a stage runs before its output can be sent, which is less than backward where
/// weight gradients can wait and the output goes anywhere. Groups of 2^k replicas are named by k.
class BoundTimes {
 public:
  /// Keeps a reference to the table. REQUIRES: at least one sequence.
  explicit BoundTimes(const BoundProblem& problem);

  [[nodiscard]] std::int32_t ranks() const { return table_.layout().ranks(); }
  /// The times that a sequence passes from one stage to the next.
  [[nodiscard]] std::int32_t hops() const { return stages() - 1; }
  [[nodiscard]] std::size_t groups() const { return fastest_cost_.front().size(); }

  /// The speed of each replica on this rank.
  [[nodiscard]] std::vector<double> speed_on(std::int32_t rank) const;
  /// The time of a sequence, forward and `backward`, on all stages of a rank of each replica of the
  /// group, uncut, at speed 1; with E, H and G of a vocabulary that is spread.
  [[nodiscard]] PackCost load(std::int32_t rank, Pass backward, std::size_t k) const;
  /// The least time of one slice on stages [0, s), with their transfers, on the best group. The
  /// first forwards and the last backwards of a replica are of first slices.
  [[nodiscard]] double way(std::int32_t s, Pass pass) const;
  /// The time that a rank of a replica that runs anything has beside its sequences: the way to its
  /// first stage, a MicroPack each way on each stage and, after the last rows are sent, the way
  /// back from the first stage.
  [[nodiscard]] double around(std::int32_t rank, Pass backward) const;
  /// Filling and draining the pipeline add this to a replica's work on the rank (ramp_bound.h),
  /// where every replica has as much as `work` or is done sooner; 0 where ranks have several
  /// stages, or differ in speed, or help each other. `work`: nanoseconds that add up slice by
  /// slice, of both passes.
  [[nodiscard]] double ramps(std::int32_t rank, Pass backward, double work) const;
  /// The way of a sequence through the pipeline and back. The greater of two bounds:
  ///  - its forward slices follow each other on the first stage, and the last of them passes all
  ///    other stages; its backward slices follow each other on the last stage, and the last of them
  ///    comes back;
  ///  - in either pass n slices take n overheads and the work of the whole on the stages' cheapest,
  ///    and the largest of them, an n-th of the work at least, repeats at every hand-over.
  [[nodiscard]] double chain(Tokens length, std::size_t k) const;
  /// A bound of the same way that counts the messages of every slice (chain_bound.h). It says more
  /// than chain() if these take long, and takes a thousand times as long to find. 0 without
  /// messages.
  [[nodiscard]] double messages_chain(Tokens length, std::size_t k) const;
  /// The least that every slice of a sequence but one adds to the load of the rank on each of 2^k
  /// replicas, at speed 1. With `packs` the MicroPack of each slice counts, too.
  [[nodiscard]] SliceLoads slice_loads(std::int32_t rank, Pass backward, std::size_t k,
                                       bool packs) const;
  /// The second bound of chain(), for a sequence whose further slices add no more than `load`
  /// together, each as `slices` says.
  [[nodiscard]] double chain_within(Tokens length, std::size_t k, const SliceLoads& slices,
                                    double load) const;
  /// The time that no action goes below.
  [[nodiscard]] double shortest_action() const;

 private:
  [[nodiscard]] std::int32_t stages() const { return table_.layout().stages(); }
  /// The cost of a rank's stages, at the speed of the fastest replica.
  [[nodiscard]] PackCost cost_on(std::int32_t rank, Pass pass, std::size_t k) const;
  /// The speed of the fastest replica on the stage.
  [[nodiscard]] double fastest_on(std::int32_t s) const;
  [[nodiscard]] PackCost cost_at_speed_1(std::int32_t s, Pass pass, std::int32_t replicas) const;
  /// The cost of a stage, at the speed of the fastest replica, with what certainly travels.
  [[nodiscard]] const PackCost& cost(std::int32_t s, Pass pass, std::size_t k) const;
  [[nodiscard]] PackCost vocabulary(Pass backward, std::size_t k) const;
  [[nodiscard]] bool may_skip(std::int32_t s, Pass pass) const;
  [[nodiscard]] double transfer(Tokens tokens, std::size_t k) const;
  /// The pass on the stage beside that on stage `of`, at least.
  [[nodiscard]] double least_ratio(std::int32_t s, std::int32_t of, Pass pass) const;
  /// The backward work of a sequence beside its forward work, on the stage, in any group.
  [[nodiscard]] std::pair<double, double> backward_ratios(std::int32_t s, Pass backward) const;
  [[nodiscard]] double through(Tokens length, Pass pass, std::size_t k, double most_slices) const;

  const StageTable& table_;
  CutLimits limits_;
  Tokens head_;                                      ///< of the shortest first slice
  Tokens tail_;                                      ///< of the shortest last slice
  Tokens longest_;                                   ///< sequence
  std::vector<double> fastest_;                      ///< by rank
  std::vector<std::vector<PackCost>> fastest_cost_;  ///< [stage · 3 + pass][k]
  std::vector<std::vector<PackCost>> cheapest_;      ///< [pass][k]: the least terms of any stage
};

}  // namespace slimpack
