#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

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
    const auto all = static_cast<std::int32_t>(bytes.rows.size());
    const auto source = [&](std::int32_t s) {
      if (s < 0 || s == all) return Source::kNone;
      return placement.rank_of(StageId(s)) == rank ? Source::kThisRank : Source::kChannel;
    };
    for (const StageId s : placement.stages_of(rank))
      stages_.push_back({source(s.value() - 1), source(s.value() + 1)});
  }

  Bytes highest_of(const std::vector<Action>& order) {
    Bytes highest = waiting();
    for (const Action& action : order) {
      Stage& stage = stages_[static_cast<std::size_t>(placement_.local_stage(action.stage))];
      if (action.pass == Pass::kForward) ++stage.forwards;
      if (goes_back(action.pass)) ++stage.backwards;
      highest = std::max(highest, ledger_.peak_of(action) + waiting());
      ledger_.run(action);
      if (action.pass == Pass::kForward) ++stage.ran_forwards;
      if (goes_back(action.pass)) ++stage.ran_backwards;
      highest = std::max(highest, ledger_.live() + waiting());
    }
    return highest;
  }

 private:
  /// The stage that sends a stage's inputs of one pass.
  enum class Source : std::uint8_t { kNone, kChannel, kThisRank };
  struct Stage {
    Source before, after;                             ///< of forward and of backward inputs
    std::size_t forwards = 0, backwards = 0;          ///< begun
    std::size_t ran_forwards = 0, ran_backwards = 0;  ///< ended
  };

  /// Inputs of the stages' next packs. A stage of this rank has left those of packs that it has
  /// run; of others as many wait as fit into the channel and can have been sent.
  [[nodiscard]] Bytes waiting() const {
    Bytes sum;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Stage& stage = stages_[i];
      std::size_t forwards = std::min(stage.forwards + slots_, bytes_.forward_input.size());
      if (stage.before == Source::kThisRank) forwards = stages_[i - 1].ran_forwards;
      for (std::size_t f = stage.forwards; stage.before != Source::kNone && f < forwards; ++f)
        sum += bytes_.forward_input[f];
      std::size_t backwards = std::min(stage.backwards + slots_, needed_.size());
      if (stage.after == Source::kThisRank) backwards = stages_[i + 1].ran_backwards;
      for (std::size_t b = stage.backwards; stage.after != Source::kNone && b < backwards; ++b)
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
