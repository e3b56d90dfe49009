// Schedule: the static order in which every stage runs its MicroPacks.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// One pass of one MicroPack on one stage; text form stage, pass letter, pack: "3F7". Letters are
/// F, B, I and W; the pack of I and W is a backward one.
struct Action {
  StageId stage;
  Pass pass = Pass::kForward;
  PackId pack;

  auto operator<=>(const Action&) const = default;
};

[[nodiscard]] std::string to_string(const Action& action);

/// Orders by stage. A stage receives what an action consumes right before it and sends what it
/// produces right after it, so sends and receives need no entries of their own.
struct Schedule {
  std::vector<std::vector<Action>> stages;

  bool operator==(const Schedule&) const = default;
};

/// One comma-separated line per stage: "0F0,0F1,0B0"; an empty one where there is nothing to do, as
/// on a replica without work. Parsing throws InvalidInput with the line, the cell and the rule.
[[nodiscard]] std::string schedule_to_text(const Schedule& schedule);
[[nodiscard]] Schedule schedule_from_text(std::string_view text, std::string_view origin);

/// Slots of each stage-to-stage channel, in either direction: a stage that has produced into a full
/// channel waits until the receiver starts the action that consumes the oldest message.
inline constexpr int kChannelSlots = 8;

/// Every broken rule, one line each; empty when the schedule is correct. Written independently of
/// the generators:
///  - on every stage every forward pack once and every backward pack once, as B or as I and, later,
///    W; forward packs, backward packs (B and I) and those of W in ascending order;
///  - run with unbounded time, `slots` messages per channel, every action starts: forward input
///    from the stage before, backward input from the stage after, and on each stage the forwards of
///    every row of a backward pack; what is stuck is named with what it waits for.
[[nodiscard]] std::vector<std::string> check_schedule(const PackPlan& packs,
                                                      const Schedule& schedule,
                                                      int slots = kChannelSlots);

/// check_schedule of every replica (lines then name it); and, where replicas share packs, that all
/// of them together come to an end when a merged pack waits on each stage for all its replicas.
/// REQUIRES: check_plan is empty; one schedule for each replica, all with the same number of
/// stages.
[[nodiscard]] std::vector<std::string> check_step_schedules(const StepPlan& plan,
                                                            std::span<const Schedule> schedules,
                                                            int slots = kChannelSlots);

/// Plain 1F1B (Megatron, PipeDream-flush): stage s of p runs p − s − 1 forwards ahead, then pairs
/// one forward with one backward. REQUIRES: forward and backward partitions are the same packs
/// (backward order may be that of forward), each holding whole sequences.
[[nodiscard]] Schedule one_f_one_b(const PackPlan& packs, int stages);

/// 1F1B with gaps: MicroPack i is microbatch columns[i] of a plain 1F1B, and the microbatches
/// between do nothing. Replicas that run merged MicroPacks in the same columns never wait for each
/// other in a circle, whatever else they run. REQUIRES: as one_f_one_b; columns ascend strictly
/// from ≥ 0.
[[nodiscard]] Schedule columned_one_f_one_b(const std::vector<std::int32_t>& columns, int stages);

/// 1F1B over slices (Seq1F1B, SlimPipe): stage s of p runs as many forwards ahead of its first
/// backward as the last stage needs before any backward (the slices of a pack), and
/// ahead_per_stage · (p − 1 − s) more; then one forward before each backward. With packs of whole
/// sequences and ahead_per_stage 1 this is one_f_one_b.
/// REQUIRES: check_plan is empty; as many forward as backward packs.
[[nodiscard]] Schedule sliced_one_f_one_b(const PackPlan& packs, int stages,
                                          std::int32_t ahead_per_stage);

/// By stage: the highest bytes that any timing of these orders reaches. If they came from
/// a ListScheduler, it finds the same orders under every cap between this and the one that it had,
/// as far as that is no less than its least_memory. REQUIRES: check_schedule is empty.
/// Cost: O(stages · (packs · slots + slices)).
[[nodiscard]] std::vector<Bytes> schedule_memory(const PackPlan& packs, const Schedule& schedule,
                                                 const TaskBytes& bytes, int slots = kChannelSlots);

}  // namespace slimpack
