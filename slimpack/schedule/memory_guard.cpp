#include "slimpack/schedule/memory_guard.h"

#include <algorithm>

namespace slimpack {

std::vector<std::int32_t> running_needs(const PackPlan& packs) {
  std::vector<std::int32_t> needed = forwards_needed(packs);
  for (std::size_t b = 1; b < needed.size(); ++b) needed[b] = std::max(needed[b], needed[b - 1]);
  return needed;
}

MemoryGuard::InputBytes MemoryGuard::input_bytes(const std::vector<Bytes>& bytes,
                                                 const HasInput& has_input) {
  InputBytes inputs{std::vector<std::int64_t>(bytes.size() + 1, 0)};
  for (std::size_t i = 0; has_input.any && i < bytes.size(); ++i)
    inputs.before[i + 1] = inputs.before[i] + (has_input(i) ? bytes[i].count() : 0);
  return inputs;
}

MemoryGuard::MemoryGuard(const RowFlow& flow, const TaskBytes& bytes, StageId stage,
                         const Inputs& inputs, const ForwardNeeds& needs, int slots)
    : slots_(slots),
      forwards_(static_cast<std::int32_t>(flow.kv_begin.packs())),
      backwards_(static_cast<std::int32_t>(needs.running.size())),
      backward_inputs_(input_bytes(bytes.backward_input, inputs.backward)) {
  const StageStores stores = stage_stores(flow, bytes, stage);
  fill_forwards(stores, input_bytes(bytes.forward_input, inputs.forward));
  forward_transient_.reserve(stores.forward_opens.size());
  for (const Bytes transient : bytes.forward_transient[stage.index()])
    forward_transient_.push_back(transient.count());
  fill_backwards(stores, bytes.backward_transient[stage.index()]);
  enabled_ = by_forwards(needs.running);
  if (!needs.arriving.empty()) arrived_ = by_forwards(needs.arriving);
  least_cap_ = least_cap_for(needs.fitting.empty() ? needs.running : needs.fitting);
}

/// For each number f of forwards, how many of the ascending needs f forwards meet.
std::vector<std::int32_t> MemoryGuard::by_forwards(const std::vector<std::int32_t>& needs) const {
  std::vector<std::int32_t> met;
  met.reserve(held_.size());
  std::int32_t b = 0;
  for (std::int32_t f = 0; f <= forwards_; ++f) {
    while (b < backwards_ && needs[static_cast<std::size_t>(b)] <= f) ++b;
    met.push_back(b);
  }
  return met;
}

void MemoryGuard::fill_forwards(const StageStores& stores, const InputBytes& waiting) {
  held_.reserve(stores.forward_opens.size() + 1);
  std::int64_t opened = 0;
  for (std::int32_t f = 0; f <= forwards_; ++f) {
    held_.push_back(opened + waiting.sum(f, std::min(f + slots_, forwards_)));
    if (f < forwards_) opened += stores.forward_opens[static_cast<std::size_t>(f)].count();
  }
}

void MemoryGuard::fill_backwards(const StageStores& stores, const std::vector<Bytes>& transients) {
  const auto count = static_cast<std::size_t>(backwards_);
  for (auto* table : {&backward_.stores, &backward_.peak, &backward_.full, &backward_.open})
    table->reserve(count + 1);
  backward_.stores.push_back(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto b = static_cast<std::int32_t>(i);
    const std::int64_t before = backward_.stores.back();
    const std::int64_t during = before + transients[i].count();
    backward_.peak.push_back(during);
    backward_.stores.push_back(before + stores.backward_opens[i].count() -
                               stores.backward_closes[i].count());
    backward_.full.push_back(
        std::max(before + backward_inputs_.sum(b, std::min(b + slots_, backwards_)),
                 during + backward_inputs_.sum(b + 1, std::min(b + 1 + slots_, backwards_))));
    backward_.open.push_back(
        std::max(before - backward_inputs_.sum(0, b), during - backward_inputs_.sum(0, b + 1)));
  }
}

Bytes MemoryGuard::level(std::int32_t f, std::int32_t b) const {
  f = std::min(f, forwards_);
  b = std::min(b, backwards_);
  return Bytes(held_[static_cast<std::size_t>(f)] + backward_.stores[static_cast<std::size_t>(b)] +
               waiting_backwards(f, b));
}

Bytes MemoryGuard::level_of_forward(std::int32_t f, std::int32_t b) const {
  if (f >= forwards_) return level(f, b);
  b = std::min(b, backwards_);
  const auto at = static_cast<std::size_t>(f);
  return Bytes(held_[at + 1] + forward_transient_[at] +
               backward_.stores[static_cast<std::size_t>(b)] + waiting_backwards(f, b));
}

Bytes MemoryGuard::level_of_backward(std::int32_t f, std::int32_t b) const {
  if (b >= backwards_) return level(f, b);
  f = std::min(f, forwards_);
  const std::int32_t arrived = this->arrived(static_cast<std::size_t>(f));
  return Bytes(held_[static_cast<std::size_t>(f)] + backward_.peak[static_cast<std::size_t>(b)] +
               backward_inputs_.sum(b + 1, std::min(b + 1 + slots_, arrived)));
}

std::int64_t MemoryGuard::Walk::highest_backward(std::int32_t from, std::int32_t to,
                                                 std::int32_t arrived) {
  // For backwards far enough from the last input all slots can be full. Their levels do not change
  // with it, so a monotone queue holds their running maximum. Near it all inputs up to it can be
  // waiting.
  const std::vector<std::int64_t>& full = guard_->backward_.full;
  const std::int32_t fixed = std::min(to, std::max(from, arrived - guard_->slots_));
  for (; window_end_ < fixed; ++window_end_) {
    const std::int64_t level = full[static_cast<std::size_t>(window_end_)];
    while (falling_.size() > falling_begin_ &&
           full[static_cast<std::size_t>(falling_.back())] <= level)
      falling_.pop_back();
    falling_.push_back(window_end_);
  }
  while (falling_begin_ < falling_.size() && falling_[falling_begin_] < from) ++falling_begin_;
  std::int64_t highest = guard_->backward_.stores[static_cast<std::size_t>(from)];
  if (falling_begin_ < falling_.size())
    highest = std::max(highest, full[static_cast<std::size_t>(falling_[falling_begin_])]);
  if (fixed >= to) return highest;
  const auto open = guard_->backward_.open.begin();
  return std::max(highest, guard_->backward_inputs_.before[static_cast<std::size_t>(arrived)] +
                               *std::max_element(open + fixed, open + to));
}

Bytes MemoryGuard::Walk::peak_after_forward(std::int32_t f, std::int32_t b) {
  const MemoryGuard& g = *guard_;
  if (f >= g.forwards_) return Bytes(0);
  b = std::min(b, g.backwards_);
  const auto after = static_cast<std::size_t>(f) + 1;
  return std::max(g.level_of_forward(f, b),
                  Bytes(g.held_[after] + highest_backward(b, g.enabled_[after], g.arrived(after))));
}

Bytes MemoryGuard::least_cap_for(const std::vector<std::int32_t>& fitting) const {
  Bytes highest = before_start();
  Walk walk(*this);
  std::int32_t b = 0;
  for (std::int32_t f = 0; f < forwards_; ++f) {
    while (b < backwards_ && fitting[static_cast<std::size_t>(b)] <= f) ++b;
    highest = std::max(highest, walk.peak_after_forward(f, b));
  }
  return highest;
}

std::vector<MemoryGuard> memory_guards(const PackPlan& packs, const TaskBytes& bytes,
                                       const ForwardNeeds& needs, int slots,
                                       const FoldedMessages* folded) {
  const RowFlow flow = row_flow(packs);
  const std::size_t stages = bytes.rows.size();
  std::vector<MemoryGuard> guards;
  guards.reserve(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    if (folded == nullptr) {
      const MemoryGuard::Inputs inputs{{s > 0}, {s + 1 < stages}};
      guards.emplace_back(flow, bytes, StageId(s), inputs, needs, slots);
    } else {
      const MemoryGuard::Inputs inputs{{true, &folded->forward.source[s]},
                                       {true, &folded->backward.source[s]}};
      guards.emplace_back(flow, bytes, StageId(s), inputs, needs, folded->waiting);
    }
  }
  return guards;
}

WeightBacklog::WeightBacklog(const MemoryGuard& guard, const TaskBytes& bytes, StageId stage)
    : guard_(&guard), bytes_(&bytes), stage_(stage.index()) {
  if (bytes.weight_operands.empty()) return;
  for (const Bytes transient : bytes.weight_transient[stage_])
    transient_ = std::max(transient_, transient);
}

bool WeightBacklog::knows(std::int32_t b) const {
  return !bytes_->weight_operands.empty() &&
         static_cast<std::size_t>(b) < bytes_->weight_operands[stage_].size();
}

Bytes WeightBacklog::operands_of(std::int32_t b) const {
  return knows(b) ? bytes_->weight_operands[stage_][static_cast<std::size_t>(b)] : Bytes(0);
}

Bytes WeightBacklog::peak_of_forward(std::int32_t f, std::int32_t b) const {
  const Bytes then = empty() ? Bytes(0) : transient_;
  return operands_ + std::max(guard_->level_of_forward(f, b), guard_->level(f + 1, b) + then);
}

Bytes WeightBacklog::peak_of_backward(std::int32_t f, std::int32_t b, bool split) const {
  Bytes during = guard_->level_of_backward(f, b);
  if (split && knows(b)) {
    const auto at = static_cast<std::size_t>(b);
    during += bytes_->input_transient[stage_][at] - bytes_->backward_transient[stage_][at];
  }
  const Bytes kept = split ? operands_of(b) : Bytes(0);
  const Bytes then = split || !empty() ? transient_ : Bytes(0);
  return operands_ + std::max(during, guard_->level(f, b + 1) + kept + then);
}

Bytes StageMemory::highest_of(std::span<const Action> order) const {
  WeightBacklog waiting = backlog;
  Bytes peak = guard->before_start();
  MemoryGuard::Walk walk(*guard);
  std::int32_t forwards = 0;
  std::int32_t backwards = 0;
  for (const Action& action : order) {
    const bool split = action.pass == Pass::kInputGradient;
    if (action.pass == Pass::kWeightGradient) {
      waiting.run(action.pack.value());
    } else if (action.pass == Pass::kForward) {
      peak = std::max(peak, walk.peak_after_forward(forwards, backwards));
      if (!waiting.empty()) peak = std::max(peak, waiting.peak_of_forward(forwards, backwards));
      ++forwards;
    } else {
      if (split || !waiting.empty())
        peak = std::max(peak, waiting.peak_of_backward(forwards, backwards, split));
      if (split) waiting.put_off(backwards);
      ++backwards;
    }
  }
  return peak;
}

}  // namespace slimpack
