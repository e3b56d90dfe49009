// Schedule: the static order in which every rank of a pipeline runs its MicroPacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/context_exchange.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// F, B, I, W, E, H or G, in the order of Pass.
[[nodiscard]] char letter_of(Pass pass);

/// Stage, letter of the pass, pack: "3F7".
[[nodiscard]] std::string to_string(const Action& action);

/// The order of actions on each rank of a pipeline, on all its stages (StageLayout). A rank
/// receives an action's input right before the action and sends its output right after it, so sends
/// and receives need no entries.
struct Schedule {
  std::vector<std::vector<Action>> ranks;
  StagePlacement placement = {};
  std::vector<ContextExchange> exchanges = {};  ///< ascending

  [[nodiscard]] std::size_t stages() const {
    return ranks.size() * static_cast<std::size_t>(placement.stages_per_rank());
  }
  bool operator==(const Schedule&) const = default;
};

/// One comma-separated line per rank: "0F0,0F1,0B0", as torch.distributed.pipelining reads it. The
/// line of a rank without work is empty. If there are exchanges, a last line lists them, as
/// "2F5>0F7:1024": giver, taker, keys. Parsing throws InvalidInput naming `origin`, the line, the
/// cell and the rule.
[[nodiscard]] std::string schedule_to_text(const Schedule& schedule);
[[nodiscard]] Schedule schedule_from_text(std::string_view text, std::string_view origin,
                                          const StagePlacement& placement = {});

/// Slots of each channel between two stages, in either direction. A rank whose output finds a full
/// channel waits until the receiver starts the action that consumes the oldest message.
inline constexpr int kChannelSlots = 8;

/// Checkers of schedules say so many lines: a broken list is often broken everywhere.
inline constexpr std::size_t kMostCheckLines = 8;

/// Every broken rule of the lists by themselves, one line each: the first three rules of
/// check_schedule.
[[nodiscard]] std::vector<std::string> check_lists(const PackPlan& packs, const Schedule& schedule,
                                                   int slots = kChannelSlots);

/// Every broken rule of one replica by itself, one line each; empty for a correct schedule. It
/// shares no code with the generators and the step graph. The rules:
///  - a rank runs its own stages; every stage has every forward pack once and every backward pack
///    once, as B or as I and later W; a stage's forward packs, backward packs (B and I) and packs
///    of W are in ascending order;
///  - either no rank has E, H and G, or every rank has all of them: E of every forward pack, H
///    and G of every backward pack, each in ascending order, all in the same order on all ranks; E
///    comes before F on the first stage, H before B on the last and after the forwards of all its
///    rows, G after B on the first;
///  - the two actions of an exchange are on different ranks, of one pass F, B or I, and in no other
///    exchange; their packs are not merged; the keys are 1 to the prefix of the giver's slice;
///  - with unbounded time and `slots` messages per channel every action starts. E, H and G start
///    when they are next on all ranks, the two actions of an exchange when both can. A forward
///    needs its input from the stage before. A backward needs its input from the stage after, and
///    the forwards of all its rows on its own stage. A line names a stuck action and what it waits
///    for. Between two stages of one rank no slots are needed.
[[nodiscard]] std::vector<std::string> check_schedule(const PackPlan& packs,
                                                      const Schedule& schedule,
                                                      int slots = kChannelSlots);

/// The rules of check_schedule for all replicas together, where a merged pack starts on a stage
/// when it is next on all its replicas; and E, H and G are there exactly if the plan spreads the
/// vocabulary. Each line names its replica, if there are several. REQUIRES: check_plan is empty;
/// one schedule for each replica, all with the same number of stages.
[[nodiscard]] std::vector<std::string> check_step(const StepPlan& plan,
                                                  std::span<const Schedule> schedules,
                                                  int slots = kChannelSlots);

/// Plain 1F1B (Megatron, PipeDream-flush): stage s of p runs p − s − 1 forwards ahead, then pairs
/// of one forward and one backward. REQUIRES: forward and backward have the same packs, possibly in
/// the same order, and each pack holds whole sequences.
[[nodiscard]] Schedule one_f_one_b(const PackPlan& packs, int stages);

/// 1F1B with gaps: MicroPack i is microbatch columns[i] of a 1F1B of `count` microbatches,
/// interleaved where a rank has several stages, and the microbatches between are left out. Replicas
/// that run merged MicroPacks in the same columns never wait for each other in a circle, whatever
/// else they run. REQUIRES: whole sequences; columns are at least 0 and ascend strictly, `count` is
/// above all.
[[nodiscard]] Schedule columned_one_f_one_b(const std::vector<std::int32_t>& columns,
                                            std::int32_t count, int ranks,
                                            std::int32_t stages_per_rank = 1);

/// ZB-V (Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 6): every rank runs two
/// stages, there and back (PlacementStyle::kV). If F, I and W of all stages take equally long,
/// ranks never wait between their first and their last action, and each holds at most 2p packs of a
/// stage: as much as the first rank of 1F1B holds of twice as large stages. Both hold for 2p − 1
/// packs or more. Without `split` backwards stay whole. REQUIRES: as one_f_one_b; two ranks or
/// more.
[[nodiscard]] Schedule zero_bubble_v(const PackPlan& packs, int ranks, bool split);

/// 1F1B over slices (Seq1F1B; SlimPipe, arXiv:2504.14519 and the order of its public code). Before
/// its first backward, rank r of p runs n · v + ahead_per_rank · (p − 1 − r) forwards; then one
/// forward precedes each backward. n is the slices of the largest micro-batch, whose backwards
/// start when all of them have passed forward; v is stages_per_rank. Slices pass in rounds of at
/// least p (folded_ranks.h), for which micro-batches of fewer slices are joined. For whole
/// sequences it is one_f_one_b with ahead_per_rank 1 and one stage a rank, and Megatron's
/// interleaved schedule with 2 and several. Ranks so far ahead run a forward and a backward in each
/// tick of ticks.h. REQUIRES: check_plan is empty; 2 ahead with several stages a rank.
/// The order is correct with one stage a rank, and with several where a micro-batch's backward
/// packs take the places of its forward packs; of other packs check_schedule says whether it is.
[[nodiscard]] Schedule sliced_one_f_one_b(const PackPlan& packs, int ranks,
                                          std::int32_t ahead_per_rank,
                                          std::int32_t stages_per_rank = 1);

/// DynaPipe's wait-free cyclic schedule. In every cycle a stage runs one backward, then one
/// forward, of those whose inputs were there when the cycle began. Stage s of p so runs 2·(p − 1 −
/// s) + 1 forwards ahead. A stage leaves a forward for a later cycle while the weights of the packs
/// that it has run forward and not yet backward would exceed `limit` with it, unless there are
/// none. REQUIRES: forward and backward have the same packs of whole sequences in the same order;
/// their weights are at least 0. Cost: O(stages · cycles), at most O(stages · packs · stages).
[[nodiscard]] Schedule wait_free_cyclic(std::span<const std::int64_t> weights, int stages,
                                        std::int64_t limit);

/// The schedule with every backward split. Stage s runs the weight gradients of a pack after the
/// input gradients of the s-th pack behind it, as ZB-H1 does: later stages, which send back first,
/// put off more. REQUIRES: no backward of the schedule is split.
[[nodiscard]] Schedule split_backwards(const Schedule& schedule);

/// The first backward pack that any stage splits; nullopt: none is split.
[[nodiscard]] std::optional<PackId> first_split(const Schedule& schedule);

/// By rank: the highest bytes that any timing of these orders reaches. A ListScheduler that made
/// the orders under some cap makes the same ones under every cap from this value to that cap, if it
/// is at least least_memory. REQUIRES: check_schedule is empty.
/// Cost: O(stages · (packs · slots + slices)).
[[nodiscard]] std::vector<Bytes> schedule_memory(const PackPlan& packs, const Schedule& schedule,
                                                 const TaskBytes& bytes, int slots = kChannelSlots);

}  // namespace slimpack
