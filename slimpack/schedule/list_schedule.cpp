// Steps:
//  1. Each stage has a time at which to look at it next: when its action ends, when a message
//     arrives, or when a slot that it needs becomes free.
//  2. Take the stage with the earliest such time (ties: the lowest stage).
//  3. Start its next backward if input, rows and an output slot are there; else its next forward if
//     input, an output slot and memory are there; else let it sleep until something changes.
// An output slot is reserved when an action starts: slots only become free in the meantime, so no
// stage waits to send, and two neighbours can never wait for each other's channel.
#include <algorithm>
#include <iterator>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/schedule/list_scheduler.h"

namespace slimpack {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class ListRun {
 public:
  ListRun(const TaskTimes& times, const std::vector<std::int32_t>& needed, std::int32_t forwards,
          int slots, const std::vector<std::vector<MemoryGuard>>& guards,
          const std::vector<Bytes>& caps, Pass first)
      : times_(times),
        needed_(needed),
        slots_(slots),
        caps_(caps),
        first_(first),
        forwards_(forwards),
        backwards_(static_cast<std::int32_t>(needed.size())),
        stages_(guards.size()) {
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (const MemoryGuard& guard : guards[s]) {
        stages_[s].walks.emplace_back(guard);
        stages_[s].memory = std::max(stages_[s].memory, guard.before_start());
      }
    for (Stage& stage : stages_) {
      stage.forward_arrival.assign(static_cast<std::size_t>(forwards_), kNever);
      stage.backward_arrival.assign(static_cast<std::size_t>(backwards_), kNever);
    }
    std::fill(stages_.front().forward_arrival.begin(), stages_.front().forward_arrival.end(), 0);
    std::fill(stages_.back().backward_arrival.begin(), stages_.back().backward_arrival.end(), 0);
  }

  ListScheduler::Result run() {
    Schedule schedule;
    schedule.stages.resize(stages_.size());
    const auto actions = static_cast<std::size_t>(forwards_) + static_cast<std::size_t>(backwards_);
    for (auto& list : schedule.stages) list.reserve(actions);
    for (std::size_t left = actions * stages_.size(); left > 0;) {
      const auto first =
          std::min_element(stages_.begin(), stages_.end(),
                           [](const Stage& a, const Stage& b) { return a.look_at < b.look_at; });
      SLIMPACK_CHECK(first->look_at != kNever, "{} actions left and no stage can go on", left);
      const auto s = static_cast<std::size_t>(first - stages_.begin());
      if (const std::optional<Pass> pass = startable(s)) {
        schedule.stages[s].push_back(start(s, *pass));
        --left;
      } else {
        first->look_at = next_arrival(*first);
      }
    }
    ListScheduler::Result result{std::move(schedule), {}, Nanos(0)};
    for (const Stage& stage : stages_) {
      result.memory.push_back(stage.memory);
      result.makespan = std::max(result.makespan, Nanos(stage.free_at));
    }
    return result;
  }

 private:
  struct Stage {
    std::int64_t look_at = 0;
    std::int64_t free_at = 0;
    std::int32_t next_forward = 0;
    std::int32_t next_backward = 0;
    Bytes memory;                          ///< highest that any timing of the orders so far reaches
    Bytes pending;                         ///< the same, if the next forward starts now
    std::vector<MemoryGuard::Walk> walks;  ///< by replica
    std::vector<std::int64_t> forward_arrival;   ///< by pack; kNever until it is put
    std::vector<std::int64_t> backward_arrival;  ///< by pack; kNever until it is put
  };

  [[nodiscard]] bool backward_ready(std::size_t s) const {
    const Stage& stage = stages_[s];
    const auto b = static_cast<std::size_t>(stage.next_backward);
    return stage.next_backward < backwards_ && stage.next_forward >= needed_[b] &&
           stage.backward_arrival[b] <= stage.look_at &&
           (s == 0 || stage.next_backward - stages_[s - 1].next_backward < slots_);
  }

  [[nodiscard]] bool forward_ready(std::size_t s) {
    Stage& stage = stages_[s];
    const auto f = static_cast<std::size_t>(stage.next_forward);
    if (stage.next_forward >= forwards_ || stage.forward_arrival[f] > stage.look_at) return false;
    if (s + 1 < stages_.size() && stage.next_forward - stages_[s + 1].next_forward >= slots_)
      return false;
    stage.pending = Bytes(0);
    for (MemoryGuard::Walk& walk : stage.walks)
      stage.pending =
          std::max(stage.pending, walk.peak_after_forward(stage.next_forward, stage.next_backward));
    return caps_.empty() || stage.pending <= caps_[s];
  }

  std::optional<Pass> startable(std::size_t s) {
    if (first_ == Pass::kForward && forward_ready(s)) return Pass::kForward;
    if (backward_ready(s)) return Pass::kBackward;
    if (first_ == Pass::kBackward && forward_ready(s)) return Pass::kForward;
    return std::nullopt;
  }

  [[nodiscard]] std::int64_t next_arrival(const Stage& stage) const {
    std::int64_t next = kNever;
    for (const auto& [arrival, pack] :
         {std::pair{&stage.forward_arrival, static_cast<std::size_t>(stage.next_forward)},
          std::pair{&stage.backward_arrival, static_cast<std::size_t>(stage.next_backward)}})
      if (pack < arrival->size() && (*arrival)[pack] > stage.look_at)
        next = std::min(next, (*arrival)[pack]);
    return next;
  }

  /// Looks at a neighbour no later than `time`, or when it becomes free after that.
  void wake(std::size_t s, std::int64_t time) {
    Stage& stage = stages_[s];
    stage.look_at = std::min(stage.look_at, std::max(stage.free_at, time));
  }

  Action start(std::size_t s, Pass pass) {
    Stage& stage = stages_[s];
    const bool forward = pass == Pass::kForward;
    if (forward) stage.memory = std::max(stage.memory, stage.pending);
    const PackId pack(forward ? stage.next_forward++ : stage.next_backward++);
    const std::int64_t now = stage.look_at;
    const Nanos duration = (forward ? times_.forward : times_.backward)[s][pack.index()];
    stage.free_at = now + duration.count();
    stage.look_at = stage.free_at;

    const bool has_source = forward ? s > 0 : s + 1 < stages_.size();
    if (has_source) wake(forward ? s - 1 : s + 1, now);
    const bool has_target = forward ? s + 1 < stages_.size() : s > 0;
    if (has_target) {
      const std::size_t target = forward ? s + 1 : s - 1;
      const Nanos transfer =
          (forward ? times_.forward_transfer : times_.backward_transfer)[pack.index()];
      const std::int64_t arrival = stage.free_at + transfer.count();
      Stage& receiver = stages_[target];
      (forward ? receiver.forward_arrival : receiver.backward_arrival)[pack.index()] = arrival;
      wake(target, arrival);
    }
    return {StageId(s), pass, pack};
  }

  const TaskTimes& times_;
  const std::vector<std::int32_t>& needed_;
  std::int32_t slots_;
  const std::vector<Bytes>& caps_;  ///< by stage; empty = unlimited
  Pass first_;
  std::int32_t forwards_;
  std::int32_t backwards_;
  std::vector<Stage> stages_;
};

/// By pack: as long as on the slowest replica.
void raise_to(std::vector<Nanos>& slowest, const std::vector<Nanos>& times) {
  if (slowest.size() < times.size()) slowest.resize(times.size());
  for (std::size_t p = 0; p < times.size(); ++p) slowest[p] = std::max(slowest[p], times[p]);
}

TaskTimes slowest_times(std::span<const ReplicaPacks> replicas) {
  TaskTimes slowest = replicas.front().times;
  for (const ReplicaPacks& replica : replicas.subspan(1)) {
    for (std::size_t s = 0; s < slowest.forward.size(); ++s) {
      raise_to(slowest.forward[s], replica.times.forward[s]);
      raise_to(slowest.backward[s], replica.times.backward[s]);
    }
    raise_to(slowest.forward_transfer, replica.times.forward_transfer);
    raise_to(slowest.backward_transfer, replica.times.backward_transfer);
  }
  return slowest;
}

/// A replica whose own packs need less still runs in the common order.
std::vector<std::int32_t> needs_of(const std::vector<std::int32_t>& common, const PackPlan& packs) {
  std::vector<std::int32_t> needed(
      common.begin(), common.begin() + static_cast<std::ptrdiff_t>(packs.backward.size()));
  for (std::int32_t& forwards : needed)
    forwards = std::min(forwards, static_cast<std::int32_t>(packs.forward.size()));
  return needed;
}

}  // namespace

ListScheduler::ListScheduler(std::span<const ReplicaPacks> replicas, int slots) : slots_(slots) {
  SLIMPACK_CHECK(!replicas.empty() && slots >= 1);
  if (replicas.size() > 1) slowest_ = slowest_times(replicas);
  times_ = slowest_ ? &*slowest_ : &replicas.front().times;
  for (const ReplicaPacks& replica : replicas) {
    const std::vector<std::int32_t> own = running_needs(replica.packs);
    if (needed_.size() < own.size())
      needed_.resize(own.size(), needed_.empty() ? 0 : needed_.back());
    for (std::size_t b = 0; b < needed_.size(); ++b)
      needed_[b] = std::max(needed_[b], own.empty() ? 0 : own[std::min(b, own.size() - 1)]);
    forwards_ = std::max(forwards_, static_cast<std::int32_t>(replica.packs.forward.size()));
  }
  backwards_ = static_cast<std::int32_t>(needed_.size());
  guards_.resize(times_->forward.size());
  least_memory_.resize(guards_.size());
  for (const ReplicaPacks& replica : replicas) {
    auto guards =
        memory_guards(replica.packs, replica.bytes, needs_of(needed_, replica.packs), slots);
    SLIMPACK_CHECK(guards.size() == guards_.size());
    for (std::size_t s = 0; s < guards.size(); ++s) {
      least_memory_[s] = std::max(least_memory_[s], guards[s].least_cap());
      guards_[s].push_back(std::move(guards[s]));
    }
  }
}

std::optional<ListScheduler::Result> ListScheduler::run(const std::vector<Bytes>& caps,
                                                        Pass first) const {
  SLIMPACK_CHECK(caps.empty() || caps.size() == guards_.size());
  for (std::size_t s = 0; s < caps.size(); ++s)
    if (least_memory_[s] > caps[s]) return std::nullopt;
  return ListRun(*times_, needed_, forwards_, slots_, guards_, caps, first).run();
}

Schedule own_order(const Schedule& common, const PackPlan& packs) {
  Schedule own;
  for (const auto& actions : common.stages) {
    auto& list = own.stages.emplace_back();
    list.reserve(packs.forward.size() + packs.backward.size());
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(list), [&](const Action& a) {
      return a.pack.index() < (a.pass == Pass::kForward ? packs.forward : packs.backward).size();
    });
  }
  return own;
}

std::optional<Schedule> list_schedule(const PackPlan& packs, const TaskTimes& times,
                                      const TaskBytes& bytes, const ListScheduleOptions& options) {
  const ReplicaPacks replica{packs, times, bytes};
  auto result = ListScheduler(std::span(&replica, 1), options.slots).run(options.memory_cap);
  return result ? std::optional(std::move(result->schedule)) : std::nullopt;
}

}  // namespace slimpack
