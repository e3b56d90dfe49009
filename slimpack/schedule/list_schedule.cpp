// Steps:
//  1. Each stage has a time at which to look at it next: when its action ends, when a message
//     arrives, or when a slot that it needs becomes free.
//  2. Take the stage with the earliest such time (ties: the lowest stage).
//  3. Start its next backward if input, rows and an output slot are there; else its next forward if
//     input, an output slot and memory are there; else let it sleep until something changes.
// An output slot is reserved when an action starts: slots only become free in the meantime, so no
// stage waits to send, and two neighbours can never wait for each other's channel.
#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class ListScheduler {
 public:
  ListScheduler(const TaskTimes& times, std::vector<std::int32_t> needed, int slots,
                std::vector<MemoryGuard> guards, const std::vector<Bytes>& caps)
      : times_(times),
        needed_(std::move(needed)),
        slots_(slots),
        guards_(std::move(guards)),
        caps_(caps),
        forwards_(static_cast<std::int32_t>(times.forward.front().size())),
        backwards_(static_cast<std::int32_t>(times.backward.front().size())),
        stages_(static_cast<std::size_t>(times.stages())) {
    for (Stage& stage : stages_) {
      stage.forward_arrival.assign(static_cast<std::size_t>(forwards_), kNever);
      stage.backward_arrival.assign(static_cast<std::size_t>(backwards_), kNever);
    }
    std::fill(stages_.front().forward_arrival.begin(), stages_.front().forward_arrival.end(), 0);
    std::fill(stages_.back().backward_arrival.begin(), stages_.back().backward_arrival.end(), 0);
  }

  Schedule run() {
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
    return schedule;
  }

 private:
  struct Stage {
    std::int64_t look_at = 0;
    std::int64_t free_at = 0;
    std::int32_t next_forward = 0;
    std::int32_t next_backward = 0;
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
    const Stage& stage = stages_[s];
    const auto f = static_cast<std::size_t>(stage.next_forward);
    return stage.next_forward < forwards_ && stage.forward_arrival[f] <= stage.look_at &&
           (s + 1 == stages_.size() || stage.next_forward - stages_[s + 1].next_forward < slots_) &&
           (guards_.empty() ||
            guards_[s].peak_after_forward(stage.next_forward, stage.next_backward) <= caps_[s]);
  }

  std::optional<Pass> startable(std::size_t s) {
    if (backward_ready(s)) return Pass::kBackward;
    if (forward_ready(s)) return Pass::kForward;
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
  std::vector<std::int32_t> needed_;
  std::int32_t slots_;
  std::vector<MemoryGuard> guards_;  ///< by stage; empty = unlimited
  const std::vector<Bytes>& caps_;
  std::int32_t forwards_;
  std::int32_t backwards_;
  std::vector<Stage> stages_;
};

}  // namespace

std::optional<Schedule> list_schedule(const PackPlan& packs, const TaskTimes& times,
                                      const TaskBytes& bytes, const ListScheduleOptions& options) {
  SLIMPACK_CHECK(times.stages() >= 1 && options.slots >= 1);
  std::vector<std::int32_t> needed = running_needs(packs);
  std::vector<MemoryGuard> guards;
  if (!options.memory_cap.empty()) {
    SLIMPACK_CHECK(options.memory_cap.size() == bytes.rows.size());
    guards = memory_guards(packs, bytes, needed, options.slots);
    for (std::size_t s = 0; s < guards.size(); ++s)
      if (guards[s].least_cap() > options.memory_cap[s]) return std::nullopt;
  }
  return ListScheduler(times, std::move(needed), options.slots, std::move(guards),
                       options.memory_cap)
      .run();
}

}  // namespace slimpack
