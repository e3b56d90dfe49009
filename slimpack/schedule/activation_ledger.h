// Activation bytes of one stage as its actions run: the memory rule of the runtime's row store.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Which forward packs a backward pack takes rows from, and when sequences start and end. Built
/// once per plan and shared by the ledgers of all stages.
struct RowFlow {
  struct Use {
    PackId forward;
    Tokens rows;
  };
  std::vector<std::vector<Use>> uses;                   ///< by backward pack
  std::vector<Tokens> rows;                             ///< by forward pack
  std::vector<std::vector<SequenceId>> kv_begin;        ///< by forward pack: first slice is here
  std::vector<std::vector<SequenceId>> dkv_begin;       ///< by backward pack: last slice here, more follow
  std::vector<std::vector<SequenceId>> dkv_end;         ///< by backward pack: first slice here, dkv held
  std::vector<std::vector<SequenceId>> sequence_end;    ///< by backward pack: first slice is here
};
[[nodiscard]] RowFlow row_flow(const PackPlan& packs);

/// Replays the stores of one stage. The caller runs actions in order; bytes are exact sums.
class ActivationLedger {
 public:
  /// Keeps references: `flow` and `bytes` must outlive the ledger.
  ActivationLedger(const RowFlow& flow, const TaskBytes& bytes, StageId stage);

  [[nodiscard]] Bytes live() const { return live_; }
  /// Highest bytes during the action, if it ran now (stores that it opens, plus transients).
  [[nodiscard]] Bytes peak_of_forward(PackId pack) const;
  [[nodiscard]] Bytes peak_of_backward(PackId pack) const;
  /// Runs the action; live() then holds what stays.
  void forward(PackId pack);
  void backward(PackId pack);

 private:
  const RowFlow* flow_;
  const TaskBytes* bytes_;
  StageId stage_;
  std::vector<Tokens> remaining_;  ///< rows of each forward pack not yet consumed
  Bytes live_;
};

}  // namespace slimpack
