#include "slimpack/plan/stage_placement.h"

#include <algorithm>

#include "slimpack/base/error.h"

namespace slimpack {

StagePlacement::StagePlacement(std::vector<std::int32_t> rank_of_stage)
    : table_(std::move(rank_of_stage)) {
  if (table_.empty()) return;
  const std::int32_t ranks = *std::ranges::max_element(table_) + 1;
  const auto stages = static_cast<std::int32_t>(table_.size());
  stages_per_rank_ = stages / ranks;
  local_.resize(table_.size());
  own_.resize(table_.size());
  std::vector<std::int32_t> count(static_cast<std::size_t>(ranks));
  for (std::int32_t s = 0; s < stages; ++s) {
    const std::int32_t rank = table_[static_cast<std::size_t>(s)];
    SLIMPACK_CHECK(rank >= 0 && count[static_cast<std::size_t>(rank)] < stages_per_rank_,
                   "rank {} has more than {} of {} stages", rank, stages_per_rank_, stages);
    const std::int32_t local = count[static_cast<std::size_t>(rank)]++;
    local_[static_cast<std::size_t>(s)] = local;
    own_[static_cast<std::size_t>(rank * stages_per_rank_ + local)] = StageId(s);
  }
  // Equal placements have equal tables.
  if (stages_per_rank_ == 1 && std::ranges::is_sorted(table_)) *this = StagePlacement();
}

StagePlacement StagePlacement::looped(std::int32_t ranks, std::int32_t stages_per_rank) {
  std::vector<std::int32_t> rank_of_stage(static_cast<std::size_t>(ranks) *
                                          static_cast<std::size_t>(stages_per_rank));
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s)
    rank_of_stage[s] = static_cast<std::int32_t>(s) % ranks;
  return StagePlacement(std::move(rank_of_stage));
}

StagePlacement StagePlacement::of(PlacementStyle style, std::int32_t ranks,
                                  std::int32_t stages_per_rank) {
  if (style == PlacementStyle::kLoop) return looped(ranks, stages_per_rank);
  SLIMPACK_CHECK(stages_per_rank == 2);
  std::vector<std::int32_t> there_and_back;
  for (std::int32_t r = 0; r < ranks; ++r) there_and_back.push_back(r);
  for (std::int32_t r = ranks; r-- > 0;) there_and_back.push_back(r);
  return StagePlacement(std::move(there_and_back));
}

bool StagePlacement::goes_around() const {
  if (stages_per_rank_ == 1) return false;
  return table_[table_.size() / static_cast<std::size_t>(stages_per_rank_)] == 0;
}

bool StagePlacement::turns_back() const {
  return std::ranges::adjacent_find(table_) != table_.end();
}

std::vector<StageId> StagePlacement::stages_of(std::int32_t rank) const {
  std::vector<StageId> own;
  for (std::int32_t local = 0; local < stages_per_rank_; ++local) own.push_back(stage(rank, local));
  return own;
}

}  // namespace slimpack
