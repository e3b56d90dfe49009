// Step graph: the actions of a step, what each of them waits for, and which of them start together.
// One run of the graph gives the time of every action.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// An action of one rank. Times are nanoseconds since the start of the step, or of whatever unit
/// the durations are.
struct StepNode {
  static constexpr std::int32_t kNone = -1;

  Action action;
  std::int64_t duration = 0;
  std::int64_t travel = 0;  ///< of the output to the receiver
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t put = 0;           ///< the output leaves: the end, or later if the channel is full
  std::int32_t sender = kNone;    ///< the node whose output this one needs
  std::int32_t receiver = kNone;  ///< the node that needs this one's output
  std::int32_t frees = kNone;     ///< the node whose output gets the slot that this start frees
  std::int32_t gang = 0;          ///< the next of the nodes that start together, in a circle
  bool leaves_rank = false;       ///< the receiver is on another rank
  bool last = false;              ///< of its rank
};

/// The rule says what waits for a free slot of a channel.
enum class SlotRule : std::uint8_t {
  kOutput,  ///< an action's output, which holds its rank up
  kStart,   ///< the action itself: it starts when its output is sure of a slot
};

/// The graph of all replicas of a step. Its nodes are the actions, rank by rank in the order of
/// their lists. An action waits for the action before it on its rank, for its input, and for the
/// other actions of its gang: E, H and G for those of all ranks, an exchange of attention for its
/// partner, a merged MicroPack for the other replicas. A message between two stages of one rank
/// needs no channel and no time.
class StepGraph {
 public:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  /// All durations are 0 and no replicas wait for each other. REQUIRES: at least one replica; all
  /// have the same ranks and stages; each stage has every pack of a pass once. Cost: O(actions).
  explicit StepGraph(std::span<const Schedule> orders, std::size_t slots = kNoLimit,
                     SlotRule rule = SlotRule::kOutput);

  /// Gives the actions of a replica their durations, and their outputs the time that they travel.
  void set_times(std::size_t replica, const TaskTimes& times);
  /// The replicas of a merged MicroPack start it together on each stage; it takes as long as on the
  /// slowest. REQUIRES: check_plan accepts these packs together. Cost: O(packs · stages).
  void join_merged(std::span<const PackPlan* const> packs);

  /// Sets the times of all nodes. REQUIRES: called once; no actions wait for each other in a circle
  /// (check_step). Cost: O(actions).
  void run();

  [[nodiscard]] std::size_t replicas() const { return placed_.size(); }
  [[nodiscard]] std::size_t ranks() const { return ranks_; }  ///< of one replica
  /// The actions of a replica's rank, in their order.
  [[nodiscard]] std::span<const StepNode> rank(std::size_t replica, std::size_t rank) const;
  [[nodiscard]] std::span<StepNode> rank(std::size_t replica, std::size_t rank);
  [[nodiscard]] const StepNode& node(std::int32_t index) const {
    return nodes_[static_cast<std::size_t>(index)];
  }
  /// The node of F, B or I; a whole backward and its input gradients are the same node.
  [[nodiscard]] const StepNode& node(std::size_t replica, StageId stage, Pass pass,
                                     PackId pack) const {
    return node(place(replica, stage, pass, pack));
  }

  /// The events of the run, in an order in which each comes after those that it waited for, and the
  /// nodes of a gang stand side by side.
  struct Event {
    std::int32_t node = 0;
    std::size_t replica = 0;
    bool is_put = false;    ///< else the action started
    std::int64_t time = 0;  ///< of a put; of a start the first end in the gang
  };
  [[nodiscard]] std::vector<Event> events() const;

 private:
  /// The nodes of a replica by [stage][pack], those of forwards before those of backwards.
  struct Placed {
    std::size_t forwards = 0, backwards = 0;
    std::vector<std::int32_t> nodes;

    [[nodiscard]] std::size_t stages() const { return nodes.size() / (forwards + backwards); }
    [[nodiscard]] std::size_t index(StageId stage, Pass pass, PackId pack) const {
      const std::size_t first = stage.index() * (forwards + backwards);
      return first + (runs_forward_packs(pass) ? 0 : forwards) + pack.index();
    }
  };

  [[nodiscard]] std::int32_t place(std::size_t replica, StageId stage, Pass pass,
                                   PackId pack) const {
    const Placed& own = placed_[replica];
    return own.nodes[own.index(stage, pass, pack)];
  }
  StepNode& at(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }
  void add_nodes(const Schedule& order);
  void link_messages(std::size_t replica, const Schedule& order, std::size_t slots);
  void join_ranks(std::size_t replica);
  void join(std::int32_t a, std::int32_t b);
  /// A pack of a replica.
  struct Member {
    std::size_t replica;
    PackId pack;
  };
  void join_on_all_stages(Pass pass, const Member& a, const Member& b);
  /// The nodes of a gang take as long as the slowest of them.
  void level_on_all_stages(Pass pass, const Member& member);
  void set_waits();
  void start(std::int32_t leader);
  void put(std::int32_t node);
  void arrive(std::int32_t node, std::int64_t time);
  void settle(std::int32_t node, std::int64_t time);

  std::size_t ranks_;
  SlotRule rule_;
  std::vector<StepNode> nodes_;
  std::vector<std::size_t> rank_begin_;  ///< [replica · ranks + rank], and the end
  std::vector<Placed> placed_;           ///< by replica
  // While the graph runs:
  std::vector<std::int32_t> leader_;       ///< by node: the first of its gang
  std::vector<std::int32_t> start_waits_;  ///< by leader: what its gang still waits for
  std::vector<std::int32_t> put_waits_;    ///< by node: what its output still waits for
  std::vector<std::int32_t> can_start_;    ///< leaders, in the order in which they start
  std::vector<std::int32_t> happened_;  ///< in turn: 2 · leader of a start, 2 · node + 1 of a put
};

/// The graph of a step with the times of all actions, as it has run. REQUIRES: at least one replica
/// and an order for each, all with the same ranks and stages; check_plan and check_step are empty.
/// Bytes are not needed. Cost: O(actions).
[[nodiscard]] StepGraph timed_graph(std::span<const ReplicaPacks> replicas,
                                    std::span<const Schedule> orders, int slots = kChannelSlots);

}  // namespace slimpack
