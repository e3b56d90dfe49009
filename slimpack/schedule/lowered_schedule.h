// Lowered schedule: what every rank does in a step, with its sends and receives.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

enum class Operation : std::uint8_t {
  kCompute,  ///< runs the action; waits for its input before, if it has one
  kReceive,  ///< posts the receive of the action's input; does not wait
  kSend,     ///< posts the send of the action's output; waits for a free slot alone
};

/// One entry of a rank's list. The action of a message has pass F or B, whether or not a backward
/// is split.
struct Instruction {
  Operation operation = Operation::kCompute;
  Action action;

  auto operator<=>(const Instruction&) const = default;
};

/// The text that torch.distributed.pipelining writes: "1RECV_F0", "1F0", "1SEND_F0".
[[nodiscard]] std::string to_string(const Instruction& instruction);

/// The instructions of each rank of a pipeline, in the order in which it begins them.
struct LoweredSchedule {
  std::vector<std::vector<Instruction>> ranks;
  StagePlacement placement = {};
  std::vector<ContextExchange> exchanges = {};  ///< the schedule's

  [[nodiscard]] std::size_t stages() const {
    return ranks.size() * static_cast<std::size_t>(placement.stages_per_rank());
  }
  bool operator==(const LoweredSchedule&) const = default;
};

/// One comma-separated line per rank, as schedule_to_text. Parsing throws InvalidInput naming
/// `origin`, the line, the cell and the rule.
[[nodiscard]] std::string lowered_to_text(const LoweredSchedule& lowered);
[[nodiscard]] LoweredSchedule lowered_from_text(std::string_view text, std::string_view origin,
                                                const StagePlacement& placement = {});

/// The schedule without its sends and receives.
[[nodiscard]] Schedule actions_of(const LoweredSchedule& lowered);

/// The pass in whose name a pass's messages travel: F or B.
[[nodiscard]] constexpr Pass message_pass(Pass pass) {
  return pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
}

/// The stage from which an action's input comes, and the one to which its output goes; none where
/// the pipeline begins or ends. Only F, B and I have any.
[[nodiscard]] std::optional<StageId> source_stage(const Action& action, std::size_t stages);
[[nodiscard]] std::optional<StageId> target_stage(const Action& action, std::size_t stages);

/// Every broken rule of a step's lowered schedules, one line each; empty if they are correct. It
/// shares no code with lower(). The rules:
///  - check_step is empty for the actions;
///  - every input from another rank is received once, before its action; every output to another
///    rank is sent once, after its action and before the next one; receives of a stage in one
///    direction are posted in the order of the packs, at most slots + 1 of which no action has
///    begun to use;
///  - the step ends in the worst case of a GPU: every instruction first synchronises its device, so
///    it waits for all sends and receives that its rank has posted; a send and its receive end
///    together (rendezvous), in the order of posting for each pair of ranks and direction, and for
///    each pass where stages go around a ring. A step
///    that ends in this case ends whenever devices synchronise, and with any number of slots.
/// REQUIRES: check_plan is empty; one lowered schedule for each replica, all with the same number
/// of stages.
[[nodiscard]] std::vector<std::string> check_lowered(const StepPlan& plan,
                                                     std::span<const LoweredSchedule> lowered,
                                                     int slots = kChannelSlots);

/// Throws InvalidInput naming `origin` and the first broken rule. There must be one schedule for
/// each replica, with the plan's stages, and check_step must be empty. REQUIRES:
/// check_plan is empty.
void require_valid_schedules(const StepPlan& plan, std::span<const Schedule> schedules,
                             std::string_view origin);

/// Checks lowered schedules in the same way, with check_lowered in place of check_step.
void require_valid_lowered(const StepPlan& plan, std::span<const LoweredSchedule> lowered,
                           std::string_view origin);

/// By replica what its ranks do. Each rank posts a receive before the action that it runs when the
/// message leaves in the simulation, no earlier: so the message travels meanwhile, and what the
/// rank posts never depends on what it has yet to run. check_lowered accepts the result, and the
/// step takes as long as simulate() says. REQUIRES: as timed_graph.
/// Cost: O(actions · log(actions)).
[[nodiscard]] std::vector<LoweredSchedule> lower(std::span<const ReplicaPacks> replicas,
                                                 std::span<const Schedule> schedules,
                                                 int slots = kChannelSlots);

/// Lowers a plan without known costs, as if a backward took as long as two forwards.
/// REQUIRES: check_plan and check_step are empty.
[[nodiscard]] std::vector<LoweredSchedule> lower(const StepPlan& plan,
                                                 std::span<const Schedule> schedules);

}  // namespace slimpack
