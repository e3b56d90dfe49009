// The dependencies of a step's actions as a graph: an oracle for what waits for what, whatever runs
// it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack::testing {

/// Two nodes for each action: it starts, and its output is put into the channel. All replicas of a
/// merged pack share the node of the start, and so do all ranks of a pipeline that of E, H and G,
/// and two actions that exchange attention.
class WaitGraph {
 public:
  /// `times` by replica. `lowered`: by replica; a message travels once its receive is posted, too.
  /// Empty = receives are posted in time. REQUIRES: check_plan is empty; every pass of every pack
  /// is once on every stage.
  WaitGraph(const StepPlan& plan, std::span<const Schedule> schedules,
            const std::vector<TaskTimes>& times, int slots,
            std::span<const LoweredSchedule> lowered = {})
      : plan_(plan), schedules_(schedules), times_(times), slots_(slots) {
    for (std::size_t r = 0; r < schedules.size(); ++r)
      for (const auto& actions : schedules[r].ranks)
        for (std::size_t i = 0; i < actions.size(); ++i)
          add(r, actions[i], i == 0 ? nullptr : &actions[i - 1]);
    for (std::size_t r = 0; r < lowered.size(); ++r)
      for (const auto& instructions : lowered[r].ranks) add_posts(r, instructions);
    run();
  }

  /// Some actions wait for each other in a circle.
  [[nodiscard]] bool deadlocks() const { return reached_ < times_of_.size(); }
  [[nodiscard]] std::int64_t start(std::size_t r, const Action& a) const {
    return times_of_[node_.at(start_key(r, a))];
  }
  [[nodiscard]] std::int64_t put(std::size_t r, const Action& a) const {
    return times_of_[node_.at(put_key(r, a))];
  }
  /// The time that the slowest of the action's replicas needs.
  [[nodiscard]] std::int64_t duration(std::size_t r, const Action& a) const {
    if (is_joint(a.pass)) return times_[r].joint[joint_index(a.pass)][a.pack.index()].count();
    std::int64_t longest = 0;
    for (const auto& [m, same] : replicas_of(r, a)) {
      const auto& table = table_of(times_[m], same.pass);
      longest = std::max(longest, table[same.stage.index()][same.pack.index()].count());
    }
    return longest;
  }

 private:
  /// Replica, whether it is the put, action.
  using Key = std::tuple<std::size_t, bool, Action>;

  [[nodiscard]] static const std::vector<std::vector<Nanos>>& table_of(const TaskTimes& times,
                                                                       Pass pass) {
    switch (pass) {
      case Pass::kForward:
        return times.forward;
      case Pass::kBackward:
        return times.backward;
      case Pass::kInputGradient:
        return times.input_gradient;
      case Pass::kWeightGradient:
        return times.weight_gradient;
      case Pass::kEmbedding:
      case Pass::kHead:
      case Pass::kEmbeddingGradient:
        break;  // not by stage
    }
    return times.backward;
  }

  /// Another stage's action with the same pack in the same direction: it may split a backward.
  [[nodiscard]] Action on_stage(std::size_t r, std::int32_t s, const Action& a, PackId pack) const {
    for (const Action& other : schedules_[r].ranks[rank_of(r, s)])
      if (other.stage == StageId(s) && other.pack == pack &&
          goes_back(other.pass) == goes_back(a.pass) && other.pass != Pass::kWeightGradient &&
          !is_joint(other.pass))
        return other;
    return {StageId(s), a.pass, pack};
  }

  [[nodiscard]] std::size_t rank_of(std::size_t r, std::int32_t stage) const {
    return static_cast<std::size_t>(schedules_[r].placement.rank_of(StageId(stage)));
  }

  [[nodiscard]] const std::vector<MicroPack>& packs(std::size_t r, Pass pass) const {
    const PackPlan& own = plan_.replicas[r].packs;
    return pass == Pass::kForward ? own.forward : own.backward;
  }

  /// The action on every replica of its pack, found by what is in the pack.
  [[nodiscard]] std::vector<std::pair<std::size_t, Action>> replicas_of(std::size_t r,
                                                                        const Action& a) const {
    if (is_joint(a.pass)) return {{r, {StageId(std::int32_t{0}), a.pass, a.pack}}};
    // Weight gradients wait for nobody.
    if (a.pass == Pass::kWeightGradient) return {{r, a}};
    const MicroPack& pack = packs(r, a.pass)[a.pack.index()];
    const auto count = static_cast<std::size_t>(pack.replicas);
    std::vector<std::pair<std::size_t, Action>> out;
    for (std::size_t m = r / count * count; m < (r / count + 1) * count; ++m) {
      const auto& list = packs(m, a.pass);
      const auto at = std::find(list.begin(), list.end(), pack);
      out.emplace_back(
          m, Action{a.stage, a.pass, PackId(static_cast<std::size_t>(at - list.begin()))});
    }
    return out;
  }
  [[nodiscard]] Key start_key(std::size_t r, const Action& a) const {
    for (const ContextExchange& exchange : schedules_[r].exchanges)
      if (exchange.taker == a) return {r, false, exchange.giver};
    const auto first = replicas_of(r, a).front();
    return {first.first, false, first.second};
  }
  [[nodiscard]] static Key put_key(std::size_t r, const Action& a) { return {r, true, a}; }

  std::size_t node(const Key& key) {
    const auto [at, is_new] = node_.try_emplace(key, edges_.size());
    if (is_new) edges_.emplace_back();
    return at->second;
  }
  void edge(const Key& from, const Key& to, std::int64_t after) {
    const std::size_t source = node(from);
    const std::size_t target = node(to);
    edges_[source].emplace_back(target, after);
  }

  void add(std::size_t r, const Action& a, const Action* before) {
    const bool forward = a.pass == Pass::kForward;
    const std::int32_t up = forward ? -1 : 1;
    const auto last = static_cast<std::int32_t>(schedules_[r].stages()) - 1;
    const std::int32_t s = a.stage.value();
    node(start_key(r, a));
    edge(start_key(r, a), put_key(r, a), duration(r, a));
    if (before != nullptr) edge(put_key(r, *before), start_key(r, a), 0);
    if (a.pass == Pass::kWeightGradient || is_joint(a.pass)) return;
    // Between stages of one rank nothing is sent.
    if (s + up >= 0 && s + up <= last)
      edge(put_key(r, on_stage(r, s + up, a, a.pack)), start_key(r, a),
           rank_of(r, s + up) == rank_of(r, s) ? 0 : transfer(r, a));
    if (s - up >= 0 && s - up <= last && rank_of(r, s - up) != rank_of(r, s) &&
        a.pack.value() >= slots_)
      edge(start_key(r, on_stage(r, s - up, a, PackId(a.pack.value() - slots_))), put_key(r, a), 0);
    if (forward) return;
    for (const Slice& slice : packs(r, a.pass)[a.pack.index()].slices)
      for (std::size_t f = 0; f < packs(r, Pass::kForward).size(); ++f)
        for (const Slice& row : packs(r, Pass::kForward)[f].slices)
          if (row.sequence == slice.sequence)
            edge(put_key(r, {a.stage, Pass::kForward, PackId(f)}), start_key(r, a), 0);
  }

  [[nodiscard]] std::int64_t transfer(std::size_t r, const Action& a) const {
    const bool forward = a.pass == Pass::kForward;
    return (forward ? times_[r].forward_transfer : times_[r].backward_transfer)[a.pack.index()]
        .count();
  }

  /// A message travels no sooner than the action or the send before its receive has ended.
  void add_posts(std::size_t r, const std::vector<Instruction>& instructions) {
    const Instruction* before = nullptr;
    for (const Instruction& i : instructions) {
      if (i.operation != Operation::kReceive) {
        before = &i;
        continue;
      }
      if (before == nullptr) continue;
      const Action receiver = on_stage(r, i.action.stage.value(), i.action, i.action.pack);
      const Action& a = before->action;
      if (before->operation == Operation::kSend)
        edge(put_key(r, on_stage(r, a.stage.value(), a, a.pack)), start_key(r, receiver),
             transfer(r, receiver));
      else
        edge(start_key(r, a), start_key(r, receiver), duration(r, a) + transfer(r, receiver));
    }
  }

  /// Kahn's order: a node when all that leads to it is done.
  void run() {
    std::vector<std::size_t> open(edges_.size(), 0);
    for (const auto& out : edges_)
      for (const auto& [to, after] : out) ++open[to];
    times_of_.assign(edges_.size(), 0);
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < open.size(); ++n)
      if (open[n] == 0) ready.push_back(n);
    for (; reached_ < ready.size(); ++reached_) {
      const std::size_t from = ready[reached_];
      for (const auto& [to, after] : edges_[from]) {
        times_of_[to] = std::max(times_of_[to], times_of_[from] + after);
        if (--open[to] == 0) ready.push_back(to);
      }
    }
  }

  const StepPlan& plan_;
  std::span<const Schedule> schedules_;
  const std::vector<TaskTimes>& times_;
  int slots_;
  std::map<Key, std::size_t> node_;
  std::vector<std::vector<std::pair<std::size_t, std::int64_t>>> edges_;
  std::vector<std::int64_t> times_of_;
  std::size_t reached_ = 0;
};

}  // namespace slimpack::testing
