// Steps:
//  1. Each stage has a time of its next look: when its action ends, a message arrives, or a slot
//     that it needs becomes free.
//  2. Take the stage with the earliest such time (ties: the lowest stage).
//  3. Start its next backward if it has input, rows and an output slot. Else start its next forward
//     if it has input, an output slot and memory. Else run put-off weight gradients. Else let the
//     stage sleep until something changes.
// With a spread vocabulary all stages run E, H and G together. Once these are due, a stage starts
// only what ends before the others are there. An action reserves its output slot when it starts.
// Meanwhile slots only become free, so no stage waits to send, and two neighbours never wait for
// each other's channel.
#include "slimpack/schedule/list_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// E runs so many forwards ahead, as fewer E make the ranks wait for each other more often.
constexpr std::int32_t kLookedUp = 4;

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
    std::int64_t* const arrivals = arrivals_.get() + s * packs;
    stage.forward = {tasks.times.forward[s].data(), tasks.forwards, 0, arrivals};
    stage.backward = {tasks.times.backward[s].data(), backwards_, 0, arrivals + forwards};
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

/// Whether the output of the stage's next pack is sure of a slot.
bool ListRun::has_slot(std::size_t s, bool forward) const {
  const std::int32_t pack = stages_[s].way(forward).next;
  if (tasks_.folded != nullptr) {
    const FoldedLink& to = target(s, forward, pack);
    return to.rank < 0 || stages_[static_cast<std::size_t>(to.rank)].way(forward).next >= to.begun;
  }
  if (forward ? s + 1 == stages_.size() : s == 0) return true;
  return pack - stages_[forward ? s + 1 : s - 1].way(forward).next < tasks_.slots;
}

/// When the input of the stage's next pack arrives; kNever until its sender has begun it, or if
/// there is no next pack.
std::int64_t ListRun::arrival(std::size_t s, bool forward) const {
  const Way& own = stages_[s].way(forward);
  if (own.next >= own.packs) return kNever;
  if (tasks_.folded != nullptr) {
    const FoldedLink& from = source(s, forward, own.next);
    if (from.rank < 0) return 0;
    const Way& sender = stages_[static_cast<std::size_t>(from.rank)].way(forward);
    return sender.next <= from.place ? kNever : own.arrivals[own.next];
  }
  if (forward ? s == 0 : s + 1 == stages_.size()) {
    if (!policy_.joint) return 0;
    const Pass maker = forward ? Pass::kEmbedding : Pass::kHead;
    return joint_next_[joint_index(maker)] <= own.next ? kNever : own.arrivals[own.next];
  }
  const Way& sender = stages_[forward ? s - 1 : s + 1].way(forward);
  return sender.next <= own.next ? kNever : own.arrivals[own.next];
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
  if (policy_.joint) plan_joint();
  const std::size_t joint = policy_.joint ? packs + static_cast<std::size_t>(backwards_) : 0;
  for (std::size_t left = packs * stages_.size() + joint; left > 0;) {
    const auto first = std::min_element(look_at_.begin(), look_at_.end());
    if (joint_at_ <= *first && joint_at_ != kNever) {
      left -= run_joint(schedule);
      continue;
    }
    SLIMPACK_CHECK(*first != kNever, "{} actions left and no stage can go on", left);
    const auto s = static_cast<std::size_t>(first - look_at_.begin());
    const std::optional<Pass> pass = startable(s);
    if (!pass || ends_late(s, *pass)) {
      look_at_[s] = next_arrival(s);
      continue;
    }
    schedule.ranks[s].push_back(start(s, *pass));
    if (policy_.joint) plan_joint();
    if (stages_[s].free_at + stages_[s].left > policy_.give_up_above.count()) return std::nullopt;
    // A split backward is two actions; its weight gradients count down.
    if (*pass != Pass::kInputGradient) --left;
  }
  return result(std::move(schedule));
}

/// Whether the stage would hold E, H and G up with its next action of this pass: it ends after the
/// other stages are there, and more than half of it comes after they are due. So a stage that is a
/// little slower than the others does not miss its turn.
bool ListRun::ends_late(std::size_t s, Pass pass) const {
  if (joint_at_ == kNever) return false;
  const Stage& stage = stages_[s];
  const std::int32_t pack = pass == Pass::kWeightGradient ? stage.put_off[stage.next_put_off]
                                                          : stage.way(pass == Pass::kForward).next;
  const std::int64_t length = duration(s, pass, PackId(pack));
  return length > joint_at_ - look_at_[s] && length > 2 * (joint_due_ - look_at_[s]);
}

bool ListRun::head_due() const {
  const std::int32_t h = joint_next_[joint_index(Pass::kHead)];
  return h < backwards_ &&
         tasks_.needed[static_cast<std::size_t>(h)] <= stages_.back().forward.next;
}

/// H is due when the last stage has run the forwards that it needs, E when the first stage has run
/// all packs that were looked up, and G, which nobody waits for, with the next of these or after
/// the last backward.
void ListRun::plan_joint() {
  const Stage& first = stages_.front();
  if (joint_at_ == kNever) {
    std::int64_t due = head_due() ? stages_.back().free_at : kNever;
    const std::int32_t looked_up = joint_next_[joint_index(Pass::kEmbedding)];
    const std::int32_t freed = joint_next_[joint_index(Pass::kEmbeddingGradient)];
    if ((looked_up < tasks_.forwards && first.forward.next == looked_up) ||
        (freed < backwards_ && first.backward.next == backwards_))
      due = std::min(due, first.free_at);
    if (due == kNever) return;
    joint_due_ = joint_at_ = due;
  }
  for (const Stage& stage : stages_) joint_at_ = std::max(joint_at_, stage.free_at);
}

std::size_t ListRun::run_joint(Schedule& schedule) {
  std::size_t ran = 0;
  std::int64_t now = joint_at_;
  const auto next = [&](Pass pass) { return joint_next_[joint_index(pass)]; };
  const auto run = [&](Pass pass) {
    const PackId pack(joint_next_[joint_index(pass)]++);
    for (std::size_t s = 0; s < stages_.size(); ++s)
      schedule.ranks[s].push_back({StageId(s), pass, pack});
    now += tasks_.times.joint[joint_index(pass)][pack.index()].count();
    ++ran;
    return pack.index();
  };
  Stage& first = stages_.front();
  while (next(Pass::kEmbeddingGradient) < first.backward.next) run(Pass::kEmbeddingGradient);
  while (head_due()) {
    const std::size_t h = run(Pass::kHead);
    stages_.back().backward.arrivals[h] = now;
  }
  while (next(Pass::kEmbedding) < std::min(tasks_.forwards, first.forward.next + kLookedUp)) {
    const std::size_t e = run(Pass::kEmbedding);
    first.forward.arrivals[e] = now;
  }
  for (Stage& stage : stages_) stage.free_at = now;
  std::ranges::fill(look_at_, now);
  joint_at_ = kNever;
  plan_joint();
  return ran;
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
        stage.pending, stores.walk.peak_after_forward(stage.forward.next, stage.backward.next));
    if (put_off)
      stage.pending = std::max(
          stage.pending, stores.backlog.peak_of_forward(stage.forward.next, stage.backward.next));
  }
  return stage.pending <= caps_[s];
}

bool ListRun::forward_ready(std::size_t s) {
  return arrival(s, true) <= look_at_[s] && has_slot(s, true) && forward_fits(s);
}

bool ListRun::backward_fits(std::size_t s, bool split) {
  if (caps_.empty()) return true;
  Stage& stage = stages_[s];
  stage.pending = Bytes(0);
  // Without a backlog, the forwards were only started if this backward fits.
  if (!split && !stage.has_put_off()) return true;
  for (const Stores& stores : stage.stores)
    stage.pending = std::max(stage.pending, stores.backlog.peak_of_backward(
                                                stage.forward.next, stage.backward.next, split));
  return stage.pending <= caps_[s];
}

/// Folded ranks pass messages around a ring, where a backward too early delays forwards that
/// another rank waits for, and the other way round. So they keep to the pace of 1F1B: a rank is two
/// forwards ahead of the next, and of the last as many as its backwards need.
Pass ListRun::preferred(std::size_t s) const {
  if (tasks_.folded == nullptr || policy_.first == Pass::kForward) return policy_.first;
  const Stage& stage = stages_[s];
  const double lead = 2.0 * static_cast<double>(stages_.size() - 1 - s);
  const double wanted = ahead_ + lead + forwards_per_backward_ * stage.backward.next;
  return stage.forward.next < wanted ? Pass::kForward : Pass::kBackward;
}

std::optional<Pass> ListRun::backward_ready(std::size_t s) {
  const Stage& stage = stages_[s];
  const std::int32_t b = stage.backward.next;
  if (arrival(s, false) > look_at_[s] ||
      stage.forward.next < tasks_.needed[static_cast<std::size_t>(b)] || !has_slot(s, false))
    return std::nullopt;
  if (b >= policy_.split_from && backward_fits(s, true)) return Pass::kInputGradient;
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

std::int64_t ListRun::next_arrival(std::size_t s) const {
  std::int64_t next = kNever;
  for (const std::int64_t time : {arrival(s, true), arrival(s, false)})
    if (time > look_at_[s]) next = std::min(next, time);
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
      return stages_[s].forward.times[p].count();
    case Pass::kBackward:
      return stages_[s].backward.times[p].count();
    case Pass::kInputGradient:
      return tasks_.times.input_gradient[s][p].count();
    case Pass::kWeightGradient:
      return tasks_.times.weight_gradient[s][p].count();
    case Pass::kEmbedding:
    case Pass::kHead:
    case Pass::kEmbeddingGradient:
      break;  // not of a stage
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
  if (pass == Pass::kForward) return PackId(stage.forward.next++);
  if (pass == Pass::kInputGradient) {
    stage.put_off.push_back(stage.backward.next);
    for (Stores& stores : stage.stores) stores.backlog.put_off(stage.backward.next);
  }
  return PackId(stage.backward.next++);
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
  receiver.way(forward).arrivals[at.pack] = arrival;
  wake(at.stage, arrival);
}

}  // namespace slimpack
