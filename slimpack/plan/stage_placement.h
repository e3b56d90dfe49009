// Stage placement: which rank of a pipeline runs which stages.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/placement_style.h"

namespace slimpack {

/// The rank of each stage, as a table (torch.distributed.pipelining: stage_index_to_group_rank).
/// Every rank runs equally many stages.
class StagePlacement {
 public:
  /// Stage s on rank s, whatever the number of stages.
  StagePlacement() = default;
  /// Places each stage on the given rank. REQUIRES: the ranks are 0 to n − 1 and each has equally
  /// many stages.
  explicit StagePlacement(std::vector<std::int32_t> rank_of_stage);

  /// Stage s on rank s mod `ranks`, as Megatron's interleaved schedule has it (arXiv:2104.04473,
  /// section 2.2). REQUIRES: both are at least 1.
  [[nodiscard]] static StagePlacement looped(std::int32_t ranks, std::int32_t stages_per_rank);
  /// The placement of a style. REQUIRES: as looped(); two stages a rank for kV.
  [[nodiscard]] static StagePlacement of(PlacementStyle style, std::int32_t ranks,
                                         std::int32_t stages_per_rank);

  [[nodiscard]] std::int32_t stages_per_rank() const { return stages_per_rank_; }
  [[nodiscard]] std::int32_t rank_of(StageId s) const {
    return table_.empty() ? s.value() : table_[s.index()];
  }
  /// The number of stage `s` among its rank's stages, in the order of the pipeline.
  [[nodiscard]] std::int32_t local_stage(StageId s) const {
    return table_.empty() ? 0 : local_[s.index()];
  }
  /// The stage that is number `local` of the rank's stages.
  [[nodiscard]] StageId stage(std::int32_t rank, std::int32_t local) const {
    return table_.empty() ? StageId(rank)
                          : own_[static_cast<std::size_t>(rank * stages_per_rank_ + local)];
  }
  /// The rank's stages, ascending.
  [[nodiscard]] std::vector<StageId> stages_of(std::int32_t rank) const;
  /// Whether ranks have several stages, and the first rank's second one follows the last rank's
  /// first one.
  [[nodiscard]] bool goes_around() const;
  /// Whether somewhere a stage and the next one are on one rank.
  [[nodiscard]] bool turns_back() const;
  /// The table; empty where stage s is on rank s.
  [[nodiscard]] const std::vector<std::int32_t>& rank_of_stage() const { return table_; }

  bool operator==(const StagePlacement& other) const { return table_ == other.table_; }

 private:
  std::vector<std::int32_t> table_;  ///< by stage: its rank
  std::vector<std::int32_t> local_;  ///< by stage: its number on the rank
  std::vector<StageId> own_;         ///< [rank · stages a rank + number on the rank]
  std::int32_t stages_per_rank_ = 1;
};

}  // namespace slimpack
