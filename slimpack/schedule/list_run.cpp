// Steps:
//  1. Each stage has a time of its next look: when its action ends, a message arrives, or a slot
//     that it needs becomes free.
//  2. Take the stage with the earliest such time (ties: the lowest stage).
//  3. Start its next backward if it has input, rows and an output slot. Else start its next forward
//     if it has input, an output slot and memory. Else run put-off weight gradients. Else let the
//     stage sleep until something changes.
// An action reserves its output slot when it starts. Meanwhile slots only become free, so no stage
// waits to send, and two neighbours never wait for each other's channel.
#include "slimpack/schedule/list_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

ListRun::ListRun(const ListTasks& tasks, const std::vector<Bytes>& caps, const ListPolicy& policy)
    : tasks_(tasks),
      caps_(caps),
      policy_(policy),
      backwards_(static_cast<std::int32_t>(tasks.needed.size())),
      look_at_(tasks.memory.size()) {
  if (tasks.folded != nullptr) set_pace();
  const std::size_t stages = tasks.memory.size();
  const auto forwards = static_cast<std::size_t>(tasks.forwards);
  const auto packs = forwards + static_cast<std::size_t>(backwards_);
  arrivals_ = std::make_unique_for_overwrite<std::int64_t[]>(stages * packs);
  stages_.reserve(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    Stage& stage = stages_.emplace_back();
    stage.forward_times = tasks.times.forward[s].data();
    stage.backward_times = tasks.times.backward[s].data();
    stage.forward_arrival = arrivals_.get() + s * packs;
    stage.backward_arrival = stage.forward_arrival + forwards;
    if (splits()) stage.put_off.reserve(static_cast<std::size_t>(backwards_));
    if (caps.empty()) continue;
    stage.stores.reserve(tasks.memory[s].size());
    for (const StageMemory* replica : tasks.memory[s]) {
      stage.stores.push_back({MemoryGuard::Walk(*replica->guard), replica->backlog});
      stage.memory = std::max(stage.memory, replica->guard->before_start());
    }
  }
}

void ListRun::set_pace() {
  if (backwards_ == 0) return;
  forwards_per_backward_ = static_cast<double>(tasks_.forwards) / backwards_;
  for (std::int32_t b = 0; b < backwards_; ++b)
    ahead_ = std::max(ahead_, tasks_.needed[static_cast<std::size_t>(b)] -
                                  forwards_per_backward_ * static_cast<double>(b));
}

const FoldedLink& ListRun::source(std::size_t s, bool forward, std::int32_t pack) const {
  const FoldedLinks& links = forward ? tasks_.folded->forward : tasks_.folded->backward;
  return links.source[s][static_cast<std::size_t>(pack)];
}

const FoldedLink& ListRun::target(std::size_t s, bool forward, std::int32_t pack) const {
  const FoldedLinks& links = forward ? tasks_.folded->forward : tasks_.folded->backward;
  return links.target[s][static_cast<std::size_t>(pack)];
}

bool ListRun::folded_slot(std::size_t s, bool forward, std::int32_t pack) const {
  const FoldedLink& to = target(s, forward, pack);
  if (to.rank < 0) return true;
  const Stage& receiver = stages_[static_cast<std::size_t>(to.rank)];
  return (forward ? receiver.next_forward : receiver.next_backward) >= to.begun;
}

std::int64_t ListRun::folded_arrival(std::size_t s, bool forward) const {
  const Stage& stage = stages_[s];
  const std::int32_t pack = forward ? stage.next_forward : stage.next_backward;
  const FoldedLink& from = source(s, forward, pack);
  if (from.rank < 0) return 0;
  const Stage& sender = stages_[static_cast<std::size_t>(from.rank)];
  if ((forward ? sender.next_forward : sender.next_backward) <= from.place) return kNever;
  return (forward ? stage.forward_arrival : stage.backward_arrival)[pack];
}

/// Sets `left`: the stage's own actions, then the last backward's way through the stages before it.
void ListRun::set_left() {
  const auto least = [&](std::size_t s, std::size_t b) {
    const std::int64_t whole = tasks_.times.backward[s][b].count();
    return splits() ? std::min(whole, tasks_.times.input_gradient[s][b].count()) : whole;
  };
  std::int64_t below = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    std::int64_t own = 0;
    for (std::size_t f = 0; f < static_cast<std::size_t>(tasks_.forwards); ++f)
      own += tasks_.times.forward[s][f].count();
    for (std::size_t b = 0; b < static_cast<std::size_t>(backwards_); ++b) own += least(s, b);
    stages_[s].left = own + below;
    if (backwards_ == 0) continue;
    const auto last = static_cast<std::size_t>(backwards_) - 1;
    below += least(s, last) + tasks_.times.backward_transfer[last].count();
  }
}

std::optional<ListScheduler::Result> ListRun::run() {
  if (policy_.give_up_above < Nanos(kNever)) set_left();
  Schedule schedule;
  schedule.ranks.resize(stages_.size());
  const auto packs =
      static_cast<std::size_t>(tasks_.forwards) + static_cast<std::size_t>(backwards_);
  const std::size_t halves = splits() ? static_cast<std::size_t>(backwards_) : 0;
  for (auto& list : schedule.ranks) list.reserve(packs + halves);
  for (std::size_t left = packs * stages_.size(); left > 0;) {
    const auto first = std::min_element(look_at_.begin(), look_at_.end());
    SLIMPACK_CHECK(*first != kNever, "{} actions left and no stage can go on", left);
    const auto s = static_cast<std::size_t>(first - look_at_.begin());
    const std::optional<Pass> pass = startable(s);
    if (!pass) {
      look_at_[s] = next_arrival(s);
      continue;
    }
    schedule.ranks[s].push_back(start(s, *pass));
    if (stages_[s].free_at + stages_[s].left > policy_.give_up_above.count()) return std::nullopt;
    // A split backward is two actions; its weight gradients count down.
    if (*pass != Pass::kInputGradient) --left;
  }
  return result(std::move(schedule));
}

ListScheduler::Result ListRun::result(Schedule schedule) const {
  ListScheduler::Result result{std::move(schedule), {}, Nanos(0)};
  for (const Stage& stage : stages_) {
    if (!caps_.empty()) result.memory.push_back(stage.memory);
    result.makespan = std::max(result.makespan, Nanos(stage.free_at));
  }
  return result;
}

bool ListRun::forward_fits(std::size_t s) {
  if (caps_.empty()) return true;
  Stage& stage = stages_[s];
  stage.pending = Bytes(0);
  const bool put_off = stage.has_put_off();
  for (Stores& stores : stage.stores) {
    stage.pending = std::max(
        stage.pending, stores.walk.peak_after_forward(stage.next_forward, stage.next_backward));
    if (put_off)
      stage.pending = std::max(
          stage.pending, stores.backlog.peak_of_forward(stage.next_forward, stage.next_backward));
  }
  return stage.pending <= caps_[s];
}

bool ListRun::forward_ready(std::size_t s) {
  const Stage& stage = stages_[s];
  if (stage.next_forward >= tasks_.forwards || forward_arrival(s) > look_at_[s]) return false;
  if (tasks_.folded != nullptr) return folded_slot(s, true, stage.next_forward) && forward_fits(s);
  if (s + 1 < stages_.size() && stage.next_forward - stages_[s + 1].next_forward >= tasks_.slots)
    return false;
  return forward_fits(s);
}

bool ListRun::backward_fits(std::size_t s, bool split) {
  if (caps_.empty()) return true;
  Stage& stage = stages_[s];
  stage.pending = Bytes(0);
  // Without a backlog, the forwards were only started if this backward fits.
  if (!split && !stage.has_put_off()) return true;
  for (const Stores& stores : stage.stores)
    stage.pending = std::max(stage.pending, stores.backlog.peak_of_backward(
                                                stage.next_forward, stage.next_backward, split));
  return stage.pending <= caps_[s];
}

/// Folded ranks pass messages around a ring, where a backward too early delays forwards that
/// another rank waits for, and the other way round. So they keep to the pace of 1F1B: a rank is two
/// forwards ahead of the next, and of the last as many as its backwards need.
Pass ListRun::preferred(std::size_t s) const {
  if (tasks_.folded == nullptr || policy_.first == Pass::kForward) return policy_.first;
  const Stage& stage = stages_[s];
  const double lead = 2.0 * static_cast<double>(stages_.size() - 1 - s);
  const double wanted = ahead_ + lead + forwards_per_backward_ * stage.next_backward;
  return stage.next_forward < wanted ? Pass::kForward : Pass::kBackward;
}

std::optional<Pass> ListRun::backward_ready(std::size_t s) {
  const Stage& stage = stages_[s];
  if (stage.next_backward >= backwards_ ||
      stage.next_forward < tasks_.needed[static_cast<std::size_t>(stage.next_backward)] ||
      backward_arrival(s) > look_at_[s])
    return std::nullopt;
  if (tasks_.folded != nullptr
          ? !folded_slot(s, false, stage.next_backward)
          : s > 0 && stage.next_backward - stages_[s - 1].next_backward >= tasks_.slots)
    return std::nullopt;
  if (stage.next_backward >= policy_.split_from && backward_fits(s, true))
    return Pass::kInputGradient;
  if (backward_fits(s, false)) return Pass::kBackward;
  return std::nullopt;
}

std::optional<Pass> ListRun::startable(std::size_t s) {
  const Pass first = preferred(s);
  if (first == Pass::kForward && forward_ready(s)) return Pass::kForward;
  if (const std::optional<Pass> backward = backward_ready(s)) return backward;
  if (first == Pass::kBackward && forward_ready(s)) return Pass::kForward;
  if (stages_[s].has_put_off()) return Pass::kWeightGradient;
  return std::nullopt;
}

/// When the input of the next forward arrives; kNever until its sender has begun it, or if there is
/// no next forward.
std::int64_t ListRun::forward_arrival(std::size_t s) const {
  const Stage& stage = stages_[s];
  if (stage.next_forward >= tasks_.forwards) return kNever;
  if (tasks_.folded != nullptr) return folded_arrival(s, true);
  if (s == 0) return 0;
  if (stages_[s - 1].next_forward <= stage.next_forward) return kNever;
  return stage.forward_arrival[stage.next_forward];
}

std::int64_t ListRun::backward_arrival(std::size_t s) const {
  const Stage& stage = stages_[s];
  if (stage.next_backward >= backwards_) return kNever;
  if (tasks_.folded != nullptr) return folded_arrival(s, false);
  if (s + 1 == stages_.size()) return 0;
  if (stages_[s + 1].next_backward <= stage.next_backward) return kNever;
  return stage.backward_arrival[stage.next_backward];
}

std::int64_t ListRun::next_arrival(std::size_t s) const {
  std::int64_t next = kNever;
  for (const std::int64_t arrival : {forward_arrival(s), backward_arrival(s)})
    if (arrival > look_at_[s]) next = std::min(next, arrival);
  return next;
}

/// Makes a neighbour look at `time` or, if it is busy then, as soon as it is free.
void ListRun::wake(std::size_t s, std::int64_t time) {
  look_at_[s] = std::min(look_at_[s], std::max(stages_[s].free_at, time));
}

std::int64_t ListRun::duration(std::size_t s, Pass pass, PackId pack) const {
  const std::size_t p = pack.index();
  switch (pass) {
    case Pass::kForward:
      return stages_[s].forward_times[p].count();
    case Pass::kBackward:
      return stages_[s].backward_times[p].count();
    case Pass::kInputGradient:
      return tasks_.times.input_gradient[s][p].count();
    case Pass::kWeightGradient:
      return tasks_.times.weight_gradient[s][p].count();
    case Pass::kEmbedding:
    case Pass::kHead:
    case Pass::kEmbeddingGradient:
      break;  // not of a stage: put in afterwards (spread_vocabulary.h)
  }
  return 0;
}

/// Takes the next pack of the pass and updates the stage's counters and memory.
PackId ListRun::take(Stage& stage, Pass pass) {
  if (pass == Pass::kWeightGradient) {
    const std::int32_t b = stage.put_off[stage.next_put_off++];
    for (Stores& stores : stage.stores) stores.backlog.run(b);
    return PackId(b);
  }
  stage.memory = std::max(stage.memory, stage.pending);
  if (pass == Pass::kForward) return PackId(stage.next_forward++);
  if (pass == Pass::kInputGradient) {
    stage.put_off.push_back(stage.next_backward);
    for (Stores& stores : stage.stores) stores.backlog.put_off(stage.next_backward);
  }
  return PackId(stage.next_backward++);
}

Action ListRun::start(std::size_t s, Pass pass) {
  Stage& stage = stages_[s];
  const std::int64_t now = look_at_[s];
  const PackId pack = take(stage, pass);
  const std::int64_t length = duration(s, pass, pack);
  stage.free_at = now + length;
  stage.left -= length;
  look_at_[s] = stage.free_at;
  if (pass != Pass::kWeightGradient) pass_on(s, pass, pack, now);
  return {StageId(s), pass, pack};
}

/// Tells the neighbours: the sender of the input has a free slot from `now` on, and the receiver of
/// the output gets a message.
void ListRun::pass_on(std::size_t s, Pass pass, PackId pack, std::int64_t now) {
  const bool forward = pass == Pass::kForward;
  if (tasks_.folded != nullptr) {
    const FoldedLink& from = source(s, forward, pack.value());
    if (from.rank >= 0) wake(static_cast<std::size_t>(from.rank), now);
    const FoldedLink& to = target(s, forward, pack.value());
    if (to.rank >= 0) deliver(s, forward, pack, {static_cast<std::size_t>(to.rank), to.place});
    return;
  }
  const bool has_source = forward ? s > 0 : s + 1 < stages_.size();
  if (has_source) wake(forward ? s - 1 : s + 1, now);
  const bool has_target = forward ? s + 1 < stages_.size() : s > 0;
  if (has_target) deliver(s, forward, pack, {forward ? s + 1 : s - 1, pack.value()});
}

void ListRun::deliver(std::size_t s, bool forward, PackId pack, Arrival at) {
  const TaskTimes& times = tasks_.times;
  const Nanos transfer = (forward ? times.forward_transfer : times.backward_transfer)[pack.index()];
  const std::int64_t arrival = stages_[s].free_at + transfer.count();
  Stage& receiver = stages_[at.stage];
  (forward ? receiver.forward_arrival : receiver.backward_arrival)[at.pack] = arrival;
  wake(at.stage, arrival);
}

}  // namespace slimpack
