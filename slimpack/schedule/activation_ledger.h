// Counts the activation bytes of one rank while its actions run, as the runtime's row store does.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// A list of ids for each pack, all in one array.
template <class ListedId>
class ByPack {
 public:
  /// Groups (pack, id) pairs; ids of a pack keep their order.
  ByPack(std::size_t packs, const std::vector<std::pair<PackId, ListedId>>& pairs)
      : begin_(packs + 1, 0), ids_(pairs.size()) {
    for (const auto& [pack, id] : pairs) ++begin_[pack.index() + 1];
    for (std::size_t p = 0; p < packs; ++p) begin_[p + 1] += begin_[p];
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [pack, id] : pairs) ids_[next[pack.index()]++] = id;
  }

  [[nodiscard]] std::span<const ListedId> operator[](PackId pack) const {
    return std::span(ids_).subspan(begin_[pack.index()],
                                   begin_[pack.index() + 1] - begin_[pack.index()]);
  }
  [[nodiscard]] std::size_t packs() const { return begin_.size() - 1; }

 private:
  std::vector<std::size_t> begin_;
  std::vector<ListedId> ids_;
};

/// The packs that begin and end the holding of rows, keys and values, and their gradients. Every
/// stage runs the packs of a pass in the same order, so all stages share one table per plan.
struct RowFlow {
  ByPack<PackId> rows_end;          ///< by backward pack: forward packs whose last rows it consumes
  ByPack<SequenceId> kv_begin;      ///< by forward pack: sequences whose first slice it has
  ByPack<SequenceId> dkv_begin;     ///< by backward pack: sequences that it begins, not ends
  ByPack<SequenceId> dkv_end;       ///< by backward pack: sequences that it ends, not begins
  ByPack<SequenceId> sequence_end;  ///< by backward pack: sequences that it ends
};

/// REQUIRES: valid packs. Cost: O(slices · log slices per sequence).
[[nodiscard]] RowFlow row_flow(const PackPlan& packs);

/// Bytes that the actions of one stage open and close, by pack.
struct StageStores {
  std::vector<Bytes> forward_opens;
  std::vector<Bytes> backward_opens;
  std::vector<Bytes> backward_closes;
};
[[nodiscard]] StageStores stage_stores(const RowFlow& flow, const TaskBytes& bytes, StageId stage);

/// Replays the stores of one rank's stages. REQUIRES: the caller runs the packs of each pass in
/// ascending order, a backward pack after all forward packs whose rows it uses, and weight
/// gradients after their input gradients; sums of the bytes fit into 64 bits.
class ActivationLedger {
 public:
  /// Keeps references: `flow` and `bytes` must outlive the ledger.
  ActivationLedger(const RowFlow& flow, const TaskBytes& bytes, std::size_t rank,
                   const StagePlacement& placement = {});

  [[nodiscard]] Bytes live() const { return live_; }
  /// The highest bytes during the action if it ran now: live(), the stores that it opens, and its
  /// transients.
  [[nodiscard]] Bytes peak_of(const Action& action) const;
  /// Runs the action. live() is then what stays.
  void run(const Action& action);

 private:
  /// The bytes that E or H has made for the action.
  [[nodiscard]] Bytes taken_from_vocabulary(const Action& action) const;
  void run_vocabulary(const Action& action);
  [[nodiscard]] const StageStores& stores_of(StageId stage) const {
    return stores_[static_cast<std::size_t>(placement_.local_stage(stage))];
  }

  const RowFlow& flow_;
  const TaskBytes& bytes_;
  StagePlacement placement_;
  std::size_t rank_;
  std::vector<StageStores> stores_;  ///< by stage of the rank
  Bytes live_;
};

}  // namespace slimpack
