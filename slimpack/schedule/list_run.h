// List run: one run of list scheduling, action by action in simulated time.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/schedule/folded_ranks.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// The packs of a list run. Keeps references.
struct ListTasks {
  const TaskTimes& times;
  const std::vector<std::int32_t>& needed;  ///< by backward: forwards that must run before it
  std::int32_t forwards;
  std::int32_t slots;
  const std::vector<std::vector<const StageMemory*>>& memory;  ///< by stage: of some replicas
  const FoldedMessages* folded = nullptr;                      ///< where stages are folded ranks
};

class ListRun {
 public:
  /// `caps` by stage, empty = unlimited: then no memory is counted on the way. REQUIRES: caps of at
  /// least least_cap of every guard.
  ListRun(const ListTasks& tasks, const std::vector<Bytes>& caps, const ListPolicy& policy);

  /// nullopt if the policy gives up. The memory is empty without caps. REQUIRES: called once.
  [[nodiscard]] std::optional<ListScheduler::Result> run();

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// The memory of one replica on a stage, on the way.
  struct Stores {
    MemoryGuard::Walk walk;
    WeightBacklog backlog;
  };
  /// The packs of one pass on a stage.
  struct Way {
    const Nanos* times;  ///< by pack
    std::int32_t packs;
    std::int32_t next = 0;
    /// When inputs arrive, by pack; unknown until the sender has begun the pack.
    std::int64_t* arrivals;
  };
  struct Stage {
    Way forward, backward;
    std::int64_t free_at = 0;
    std::int64_t left = 0;              ///< the least time from free_at to the end of all actions
    std::vector<std::int32_t> put_off;  ///< backward packs that this stage has split
    std::size_t next_put_off = 0;       ///< place in put_off of the first waiting gradients
    std::vector<Stores> stores;         ///< of those replicas; empty without caps
    Bytes memory;                       ///< highest that any timing of the orders so far reaches
    Bytes pending;                      ///< highest once the action checked last starts

    [[nodiscard]] const Way& way(bool goes_forward) const {
      return goes_forward ? forward : backward;
    }
    [[nodiscard]] bool has_put_off() const { return next_put_off < put_off.size(); }
  };

  void set_left();
  void set_pace();
  [[nodiscard]] Pass preferred(std::size_t s) const;
  /// For folded ranks: the sender of a pack's input, and the receiver of its output.
  [[nodiscard]] const FoldedLink& source(std::size_t s, bool forward, std::int32_t pack) const;
  [[nodiscard]] const FoldedLink& target(std::size_t s, bool forward, std::int32_t pack) const;
  [[nodiscard]] bool has_slot(std::size_t s, bool forward) const;
  [[nodiscard]] std::int64_t arrival(std::size_t s, bool forward) const;
  [[nodiscard]] bool splits() const { return policy_.split_from < backwards_; }
  [[nodiscard]] bool forward_ready(std::size_t s);
  /// Whether the next forward fits. Sets `pending`.
  [[nodiscard]] bool forward_fits(std::size_t s);
  /// Whether the next backward fits. Sets `pending`.
  [[nodiscard]] bool backward_fits(std::size_t s, bool split);
  [[nodiscard]] std::optional<Pass> backward_ready(std::size_t s);
  [[nodiscard]] std::optional<Pass> startable(std::size_t s);
  [[nodiscard]] std::int64_t next_arrival(std::size_t s) const;
  void wake(std::size_t s, std::int64_t time);
  [[nodiscard]] std::int64_t duration(std::size_t s, Pass pass, PackId pack) const;
  PackId take(Stage& stage, Pass pass);
  Action start(std::size_t s, Pass pass);
  void pass_on(std::size_t s, Pass pass, PackId pack, std::int64_t now);
  struct Arrival {
    std::size_t stage;
    std::int32_t pack;
  };
  void deliver(std::size_t s, bool forward, PackId pack, Arrival at);
  [[nodiscard]] bool ends_late(std::size_t s, Pass pass) const;
  /// Whether the last stage has begun all forwards that the next H needs.
  [[nodiscard]] bool head_due() const;
  /// Sets when all stages run E, H and G next, as far as that is known.
  void plan_joint();
  /// Runs all E, H and G that can run at that time. Result: how many.
  std::size_t run_joint(Schedule& schedule);
  [[nodiscard]] ListScheduler::Result result(Schedule schedule) const;

  ListTasks tasks_;
  const std::vector<Bytes>& caps_;
  ListPolicy policy_;
  std::int32_t backwards_;
  std::unique_ptr<std::int64_t[]> arrivals_;  ///< of all stages
  std::vector<Stage> stages_;
  std::vector<std::int64_t> look_at_;  ///< by stage: when to look at it next
  std::array<std::int32_t, kJointPasses.size()> joint_next_ = {};  ///< next packs of E, H and G
  std::int64_t joint_due_ = kNever;   ///< when the next of them could run
  std::int64_t joint_at_ = kNever;    ///< when all stages are free for them; kNever = none is due
  double forwards_per_backward_ = 1;  ///< of folded ranks
  double ahead_ = 0;                  ///< forwards that backwards need beyond that pace
};

}  // namespace slimpack
