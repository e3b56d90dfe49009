// Steps: make a node of each action; link senders, receivers and slots; join gangs. A run then lets
// happen whatever waits for nothing more (Kahn's order), so every time is set once.
#include "slimpack/schedule/step_graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {
namespace {

constexpr std::int32_t kNone = StepNode::kNone;

std::int64_t duration_of(const TaskTimes& times, const Action& action) {
  const std::size_t s = action.stage.index(), pack = action.pack.index();
  switch (action.pass) {
    case Pass::kForward:
      return times.forward[s][pack].count();
    case Pass::kBackward:
      return times.backward[s][pack].count();
    case Pass::kInputGradient:
      return times.input_gradient[s][pack].count();
    case Pass::kWeightGradient:
      return times.weight_gradient[s][pack].count();
    case Pass::kEmbedding:
    case Pass::kHead:
    case Pass::kEmbeddingGradient:
      return times.joint[joint_index(action.pass)][pack].count();
  }
  return 0;
}

}  // namespace

StepGraph::StepGraph(std::span<const Schedule> orders, std::size_t slots, SlotRule rule)
    : ranks_(orders.front().ranks.size()), rule_(rule), rank_begin_{0} {
  for (const Schedule& order : orders) {
    SLIMPACK_CHECK(order.ranks.size() == ranks_ && order.stages() == orders.front().stages());
    add_nodes(order);
  }
  for (std::size_t r = 0; r < orders.size(); ++r) {
    link_messages(r, orders[r], slots);
    join_ranks(r);
    for (const ContextExchange& exchange : orders[r].exchanges)
      join(place(r, exchange.giver.stage, exchange.giver.pass, exchange.giver.pack),
           place(r, exchange.taker.stage, exchange.taker.pass, exchange.taker.pack));
  }
}

std::span<const StepNode> StepGraph::rank(std::size_t replica, std::size_t rank) const {
  const std::size_t i = replica * ranks_ + rank;
  return std::span(nodes_).subspan(rank_begin_[i], rank_begin_[i + 1] - rank_begin_[i]);
}

std::span<StepNode> StepGraph::rank(std::size_t replica, std::size_t rank) {
  const std::size_t i = replica * ranks_ + rank;
  return std::span(nodes_).subspan(rank_begin_[i], rank_begin_[i + 1] - rank_begin_[i]);
}

void StepGraph::add_nodes(const Schedule& order) {
  Placed& own = placed_.emplace_back();
  const std::size_t first = nodes_.size();
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      StepNode& node = nodes_.emplace_back();
      node.action = action;
      node.gang = static_cast<std::int32_t>(nodes_.size()) - 1;
      if (!passes_rows(action.pass)) continue;
      std::size_t& packs = runs_forward_packs(action.pass) ? own.forwards : own.backwards;
      packs = std::max(packs, action.pack.index() + 1);
    }
    if (!actions.empty()) nodes_.back().last = true;
    rank_begin_.push_back(nodes_.size());
  }
  own.nodes.assign(order.stages() * (own.forwards + own.backwards), kNone);
  for (std::size_t n = first; n < nodes_.size(); ++n) {
    const Action& action = nodes_[n].action;
    if (!passes_rows(action.pass)) continue;
    own.nodes[own.index(action.stage, action.pass, action.pack)] = static_cast<std::int32_t>(n);
  }
}

void StepGraph::link_messages(std::size_t replica, const Schedule& order, std::size_t slots) {
  for (const std::int32_t n : placed_[replica].nodes) {
    const Action& action = at(n).action;
    const std::optional<StageId> target = target_stage(action, order.stages());
    if (!target) continue;
    at(n).receiver = place(replica, *target, action.pass, action.pack);
    at(at(n).receiver).sender = n;
    at(n).leaves_rank = order.placement.rank_of(action.stage) != order.placement.rank_of(*target);
    if (!at(n).leaves_rank || action.pack.index() < slots) continue;
    at(place(replica, *target, action.pass, PackId(action.pack.index() - slots))).frees = n;
  }
}

/// All ranks have E, H and G in one order.
void StepGraph::join_ranks(std::size_t replica) {
  std::vector<std::int32_t> first;
  for (std::size_t p = 0; p < ranks_; ++p) {
    std::size_t k = 0;
    const std::size_t i = replica * ranks_ + p;
    for (std::size_t n = rank_begin_[i]; n < rank_begin_[i + 1]; ++n) {
      if (!is_joint(nodes_[n].action.pass)) continue;
      if (p == 0)
        first.push_back(static_cast<std::int32_t>(n));
      else
        join(first[k++], static_cast<std::int32_t>(n));
    }
  }
}

/// Makes one circle of two.
void StepGraph::join(std::int32_t a, std::int32_t b) {
  std::swap(at(a).gang, at(b).gang);
}

void StepGraph::set_times(std::size_t replica, const TaskTimes& times) {
  for (std::size_t p = 0; p < ranks_; ++p)
    for (StepNode& node : rank(replica, p)) {
      node.duration = duration_of(times, node.action);
      if (!node.leaves_rank) continue;
      const bool forward = node.action.pass == Pass::kForward;
      const auto& transfer = forward ? times.forward_transfer : times.backward_transfer;
      node.travel = transfer[node.action.pack.index()].count();
    }
}

void StepGraph::join_merged(std::span<const PackPlan* const> packs) {
  for (const Pass pass : kWholePasses) {
    // The k-th pack that exactly the replicas of a group share is the same pack on all of them
    // (check_plan).
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Member>> first_of_group;
    for (std::size_t r = 0; r < packs.size(); ++r) {
      std::map<std::size_t, std::size_t> seen;  // by the group's size
      const std::vector<MicroPack>& own = packs[r]->of(pass);
      for (std::size_t pack = 0; pack < own.size(); ++pack) {
        if (own[pack].replicas == 1) continue;
        const auto size = static_cast<std::size_t>(own[pack].replicas);
        auto& first = first_of_group[{r - r % size, size}];
        const Member member{r, PackId(pack)};
        if (const std::size_t k = seen[size]++; k == first.size())
          first.push_back(member);
        else
          join_on_all_stages(pass, first[k], member);
      }
    }
    // Once all have joined: a gang may be all replicas.
    for (const auto& [group, members] : first_of_group)
      for (const Member& member : members) level_on_all_stages(pass, member);
  }
}

void StepGraph::join_on_all_stages(Pass pass, const Member& a, const Member& b) {
  for (std::size_t s = 0; s < placed_[a.replica].stages(); ++s)
    join(place(a.replica, StageId(s), pass, a.pack), place(b.replica, StageId(s), pass, b.pack));
}

void StepGraph::level_on_all_stages(Pass pass, const Member& member) {
  for (std::size_t s = 0; s < placed_[member.replica].stages(); ++s) {
    const std::int32_t first = place(member.replica, StageId(s), pass, member.pack);
    std::int64_t slowest = at(first).duration;
    for (std::int32_t n = at(first).gang; n != first; n = at(n).gang)
      slowest = std::max(slowest, at(n).duration);
    std::int32_t n = first;
    do {
      at(n).duration = slowest;
      n = at(n).gang;
    } while (n != first);
  }
}

void StepGraph::set_waits() {
  const std::size_t count = nodes_.size();
  leader_.assign(count, kNone);
  start_waits_.assign(count, 0);
  put_waits_.assign(count, 1);
  can_start_.reserve(count);
  happened_.reserve(2 * count);
  for (std::size_t n = 0; n < count; ++n)
    for (auto m = static_cast<std::int32_t>(n); leader_[static_cast<std::size_t>(m)] == kNone;
         m = at(m).gang)
      leader_[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(n);
  const auto waits_more = [&](std::size_t n) {
    ++start_waits_[static_cast<std::size_t>(leader_[n])];
  };
  for (std::size_t i = 0; i + 1 < rank_begin_.size(); ++i)
    for (std::size_t n = rank_begin_[i]; n < rank_begin_[i + 1]; ++n) {
      if (n > rank_begin_[i]) waits_more(n);
      if (nodes_[n].sender != kNone) waits_more(n);
      if (nodes_[n].frees == kNone) continue;
      const auto freed = static_cast<std::size_t>(nodes_[n].frees);
      if (rule_ == SlotRule::kStart)
        waits_more(freed);
      else
        ++put_waits_[freed];
    }
}

void StepGraph::run() {
  set_waits();
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    if (leader_[n] == static_cast<std::int32_t>(n) && start_waits_[n] == 0)
      can_start_.push_back(static_cast<std::int32_t>(n));
  for (std::size_t i = 0; i < can_start_.size(); ++i) start(can_start_[i]);
  const auto left = std::ranges::count_if(put_waits_, [](std::int32_t waits) { return waits > 0; });
  SLIMPACK_CHECK(left == 0, "deadlock with {} actions left", left);
}

/// Starts a gang. Its leader's `start` is known.
void StepGraph::start(std::int32_t leader) {
  const std::int64_t time = at(leader).start;
  happened_.push_back(2 * leader);
  std::int32_t n = leader;
  do {
    StepNode& node = at(n);
    node.start = time;
    node.end = time + node.duration;
    settle(n, node.end);
    if (node.frees != kNone) {
      if (rule_ == SlotRule::kStart)
        arrive(node.frees, time);
      else
        settle(node.frees, time);
    }
    n = node.gang;
  } while (n != leader);
}

/// A node's output leaves.
void StepGraph::put(std::int32_t n) {
  happened_.push_back(2 * n + 1);
  const StepNode& node = at(n);
  if (!node.last) arrive(n + 1, node.put);
  if (node.receiver != kNone) arrive(node.receiver, node.put + node.travel);
}

/// One thing fewer that a gang waits for.
void StepGraph::arrive(std::int32_t n, std::int64_t time) {
  const std::int32_t leader = leader_[static_cast<std::size_t>(n)];
  at(leader).start = std::max(at(leader).start, time);
  if (--start_waits_[static_cast<std::size_t>(leader)] == 0) can_start_.push_back(leader);
}

/// One thing fewer that a node's output waits for.
void StepGraph::settle(std::int32_t n, std::int64_t time) {
  at(n).put = std::max(at(n).put, time);
  if (--put_waits_[static_cast<std::size_t>(n)] == 0) put(n);
}

std::vector<StepGraph::Event> StepGraph::events() const {
  std::vector<Event> out;
  out.reserve(2 * nodes_.size());
  const auto replica_of = [&](std::int32_t n) {
    const auto after = std::ranges::upper_bound(rank_begin_, static_cast<std::size_t>(n));
    return static_cast<std::size_t>(after - rank_begin_.begin() - 1) / ranks_;
  };
  for (const std::int32_t happened : happened_) {
    const std::int32_t first = happened / 2;
    if (happened % 2 != 0) {
      out.push_back({first, replica_of(first), true, node(first).put});
      continue;
    }
    const std::size_t begin = out.size();
    std::int64_t ends = node(first).end;
    std::int32_t n = first;
    do {
      ends = std::min(ends, node(n).end);
      out.push_back({n, replica_of(n), false, 0});
      n = node(n).gang;
    } while (n != first);
    for (std::size_t i = begin; i < out.size(); ++i) out[i].time = ends;
  }
  return out;
}

StepGraph timed_graph(std::span<const ReplicaPacks> replicas, std::span<const Schedule> orders,
                      int slots) {
  SLIMPACK_CHECK(!replicas.empty() && orders.size() == replicas.size() && slots >= 1);
  StepGraph graph(orders, static_cast<std::size_t>(slots));
  std::vector<const PackPlan*> packs;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const TaskTimes& times = replicas[r].times;
    SLIMPACK_CHECK(times.forward.size() == orders[r].stages() && times.ranks() == graph.ranks());
    graph.set_times(r, times);
    packs.push_back(&replicas[r].packs);
  }
  graph.join_merged(packs);
  graph.run();
  return graph;
}

}  // namespace slimpack
