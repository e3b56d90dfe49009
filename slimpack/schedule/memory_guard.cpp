#include "slimpack/schedule/memory_guard.h"

#include <algorithm>

namespace slimpack {

std::vector<std::int32_t> running_needs(const PackPlan& packs) {
  std::vector<std::int32_t> needed = forwards_needed(packs);
  for (std::size_t b = 1; b < needed.size(); ++b) needed[b] = std::max(needed[b], needed[b - 1]);
  return needed;
}

MemoryGuard::Inputs MemoryGuard::inputs_of(const std::vector<Bytes>& bytes, bool none) {
  Inputs inputs{std::vector<std::int64_t>(bytes.size() + 1, 0)};
  for (std::size_t i = 0; !none && i < bytes.size(); ++i)
    inputs.before[i + 1] = inputs.before[i] + bytes[i].count();
  return inputs;
}

MemoryGuard::MemoryGuard(const RowFlow& flow, const TaskBytes& bytes, StageId stage, int stages,
                         const std::vector<std::int32_t>& needed, int slots)
    : slots_(slots),
      forwards_(static_cast<std::int32_t>(flow.kv_begin.packs())),
      backwards_(static_cast<std::int32_t>(needed.size())),
      forward_inputs_(inputs_of(bytes.forward_input, stage.value() == 0)),
      backward_inputs_(inputs_of(bytes.backward_input, stage.value() + 1 == stages)) {
  const StageStores stores = stage_stores(flow, bytes, stage);
  forward_stores_.push_back(0);
  for (const Bytes opens : stores.forward_opens)
    forward_stores_.push_back(forward_stores_.back() + opens.count());
  for (const Bytes transient : bytes.forward_transient[stage.index()])
    forward_transient_.push_back(transient.count());
  backward_stores_.push_back(0);
  for (std::size_t b = 0; b < needed.size(); ++b) {
    const std::int64_t before = backward_stores_.back();
    backward_peak_.push_back(before + bytes.backward_transient[stage.index()][b].count());
    backward_stores_.push_back(before + stores.backward_opens[b].count() -
                               stores.backward_closes[b].count());
  }
  std::int32_t b = 0;
  for (std::int32_t f = 0; f <= forwards_; ++f) {
    while (b < backwards_ && needed[static_cast<std::size_t>(b)] <= f) ++b;
    enabled_.push_back(b);
  }
  backward_full_.reserve(needed.size());
  for (std::int32_t i = 0; i < backwards_; ++i)
    backward_full_.push_back(backward_level(i, backwards_));
}

std::int64_t MemoryGuard::waiting_forwards(std::int32_t f) const {
  return forward_inputs_.sum(f, std::min(f + slots_, forwards_));
}

std::int64_t MemoryGuard::backward_level(std::int32_t b, std::int32_t enabled) const {
  const auto at = static_cast<std::size_t>(b);
  const std::int64_t before =
      backward_stores_[at] + backward_inputs_.sum(b, std::min(b + slots_, enabled));
  const std::int64_t during =
      backward_peak_[at] + backward_inputs_.sum(b + 1, std::min(b + 1 + slots_, enabled));
  return std::max(before, during);
}

Bytes MemoryGuard::level(std::int32_t f, std::int32_t b) const {
  f = std::min(f, forwards_);
  b = std::min(b, backwards_);
  const std::int32_t enabled = enabled_[static_cast<std::size_t>(f)];
  return Bytes(forward_stores_[static_cast<std::size_t>(f)] + waiting_forwards(f) +
               backward_stores_[static_cast<std::size_t>(b)] +
               backward_inputs_.sum(b, std::min(b + slots_, enabled)));
}

Bytes MemoryGuard::level_of_forward(std::int32_t f, std::int32_t b) const {
  if (f >= forwards_) return level(f, b);
  b = std::min(b, backwards_);
  const auto at = static_cast<std::size_t>(f);
  return Bytes(forward_stores_[at + 1] + waiting_forwards(f + 1) + forward_transient_[at] +
               backward_stores_[static_cast<std::size_t>(b)] +
               backward_inputs_.sum(b, std::min(b + slots_, enabled_[at])));
}

Bytes MemoryGuard::level_of_backward(std::int32_t f, std::int32_t b) const {
  if (b >= backwards_) return level(f, b);
  f = std::min(f, forwards_);
  const std::int32_t enabled = enabled_[static_cast<std::size_t>(f)];
  return Bytes(forward_stores_[static_cast<std::size_t>(f)] + waiting_forwards(f) +
               backward_peak_[static_cast<std::size_t>(b)] +
               backward_inputs_.sum(b + 1, std::min(b + 1 + slots_, enabled)));
}

std::int64_t MemoryGuard::Walk::highest_backward(std::int32_t from, std::int32_t to) {
  // For backwards far enough from the end of the window all slots can be full. Their levels do not
  // change with the window, so a monotone queue holds their running maximum.
  const std::vector<std::int64_t>& full = guard_->backward_full_;
  const std::int32_t fixed = std::max(from, to - guard_->slots_);
  for (; window_end_ < fixed; ++window_end_) {
    const std::int64_t level = full[static_cast<std::size_t>(window_end_)];
    while (falling_.size() > falling_begin_ &&
           full[static_cast<std::size_t>(falling_.back())] <= level)
      falling_.pop_back();
    falling_.push_back(window_end_);
  }
  while (falling_begin_ < falling_.size() && falling_[falling_begin_] < from) ++falling_begin_;
  std::int64_t highest = guard_->backward_stores_[static_cast<std::size_t>(from)];
  if (falling_begin_ < falling_.size())
    highest = std::max(highest, full[static_cast<std::size_t>(falling_[falling_begin_])]);
  for (std::int32_t b = fixed; b < to; ++b)
    highest = std::max(highest, guard_->backward_level(b, to));
  return highest;
}

Bytes MemoryGuard::Walk::peak_after_forward(std::int32_t f, std::int32_t b) {
  const MemoryGuard& g = *guard_;
  if (f >= g.forwards_) return Bytes(0);
  b = std::min(b, g.backwards_);
  const auto after = static_cast<std::size_t>(f) + 1;
  const std::int64_t waiting = g.forward_stores_[after] + g.waiting_forwards(f + 1);
  return std::max(g.level_of_forward(f, b),
                  Bytes(waiting + highest_backward(b, g.enabled_[after])));
}

Bytes MemoryGuard::least_cap() const {
  Bytes highest = before_start();
  Walk walk(*this);
  for (std::int32_t f = 0; f < forwards_; ++f)
    highest = std::max(highest, walk.peak_after_forward(f, enabled_[static_cast<std::size_t>(f)]));
  return highest;
}

std::vector<MemoryGuard> memory_guards(const PackPlan& packs, const TaskBytes& bytes,
                                       const std::vector<std::int32_t>& needed, int slots) {
  const RowFlow flow = row_flow(packs);
  const int stages = static_cast<int>(bytes.rows.size());
  std::vector<MemoryGuard> guards;
  guards.reserve(bytes.rows.size());
  for (int s = 0; s < stages; ++s)
    guards.emplace_back(flow, bytes, StageId(s), stages, needed, slots);
  return guards;
}

}  // namespace slimpack
