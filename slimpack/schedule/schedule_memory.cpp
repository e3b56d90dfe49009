#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/weight_backlog.h"

namespace slimpack {
namespace {

/// One rank, whatever the timing: in every channel to it as many inputs wait as
/// fit and can have been sent. A MemoryGuard knows one stage and no spread vocabulary, and looks
/// ahead for the list scheduler, which makes no such orders.
class SharedRank {
 public:
  SharedRank(const PackPlan& packs, const TaskBytes& bytes, ActivationLedger ledger,
             std::int32_t rank, const StagePlacement& placement, int slots)
      : bytes_(bytes),
        ledger_(std::move(ledger)),
        placement_(placement),
        slots_(static_cast<std::size_t>(slots)),
        needed_(forwards_needed(packs)) {
    const auto last = static_cast<std::int32_t>(bytes.rows.size()) - 1;
    for (const StageId s : placement.stages_of(rank))
      stages_.push_back({s == StageId(0), s == StageId(last)});
  }

  Bytes highest_of(const std::vector<Action>& order) {
    Bytes highest = waiting();
    for (const Action& action : order) {
      if (is_joint(action.pass)) {
        run(action, highest);
        continue;
      }
      Stage& stage = stages_[static_cast<std::size_t>(placement_.local_stage(action.stage))];
      if (action.pass == Pass::kForward) ++stage.forwards;
      if (goes_back(action.pass)) ++stage.backwards;
      run(action, highest);
    }
    return highest;
  }

 private:
  struct Stage {
    bool first, last;
    std::size_t forwards = 0, backwards = 0;  ///< begun
  };

  void run(const Action& action, Bytes& highest) {
    highest = std::max(highest, ledger_.peak_of(action) + waiting());
    ledger_.run(action);
    highest = std::max(highest, ledger_.live() + waiting());
  }

  /// Inputs of a stage's next packs.
  [[nodiscard]] Bytes waiting() const {
    Bytes sum;
    for (const Stage& stage : stages_) {
      const std::size_t forwards = std::min(stage.forwards + slots_, bytes_.forward_input.size());
      for (std::size_t f = stage.forwards; !stage.first && f < forwards; ++f)
        sum += bytes_.forward_input[f];
      const std::size_t backwards = std::min(stage.backwards + slots_, needed_.size());
      for (std::size_t b = stage.backwards; !stage.last && b < backwards; ++b)
        if (static_cast<std::size_t>(needed_[b]) <= stage.forwards) sum += bytes_.backward_input[b];
    }
    return sum;
  }

  const TaskBytes& bytes_;
  ActivationLedger ledger_;
  const StagePlacement& placement_;
  std::size_t slots_;
  std::vector<std::int32_t> needed_;
  std::vector<Stage> stages_;
};

std::vector<Bytes> shared_memory(const PackPlan& packs, const Schedule& schedule,
                                 const TaskBytes& bytes, int slots) {
  const RowFlow flow = row_flow(packs);
  const std::size_t ranks = schedule.ranks.size();
  std::vector<Bytes> highest;
  for (std::size_t r = 0; r < ranks; ++r)
    highest.push_back(SharedRank(packs, bytes, ActivationLedger(flow, bytes, r, schedule.placement),
                                 static_cast<std::int32_t>(r), schedule.placement, slots)
                          .highest_of(schedule.ranks[r]));
  return highest;
}

}  // namespace

std::vector<Bytes> schedule_memory(const PackPlan& packs, const Schedule& schedule,
                                   const TaskBytes& bytes, int slots) {
  SLIMPACK_CHECK(bytes.rows.size() == schedule.stages());
  if (schedule.placement.stages_per_rank() > 1 || bytes.spread_vocabulary())
    return shared_memory(packs, schedule, bytes, slots);
  std::vector<MemoryGuard> guards = memory_guards(packs, bytes, {running_needs(packs)}, slots);
  std::vector<Bytes> highest;
  for (std::size_t s = 0; s < guards.size(); ++s)
    highest.push_back(
        StageMemory(std::move(guards[s]), bytes, StageId(s)).highest_of(schedule.ranks[s]));
  return highest;
}

}  // namespace slimpack
