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
    backward_peak_.push_back(before + stores.backward_rise[b].count() +
                             bytes.backward_transient[stage.index()][b].count());
    backward_stores_.push_back(before + stores.backward_opens[b].count() -
                               stores.backward_closes[b].count());
  }
  std::int32_t b = 0;
  for (std::int32_t f = 0; f <= forwards_; ++f) {
    while (b < backwards_ && needed[static_cast<std::size_t>(b)] <= f) ++b;
    enabled_.push_back(b);
  }
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

std::int64_t MemoryGuard::highest_backward(std::int32_t from, std::int32_t to) {
  // Backwards far enough from the end of the window see all slots full; their levels do not change
  // with the window, so a monotone queue holds their running maximum.
  const std::int32_t fixed = std::max(from, to - slots_);
  for (; window_end_ < fixed; ++window_end_) {
    const std::int64_t level = backward_level(window_end_, backwards_);
    while (falling_.size() > falling_begin_ && backward_level(falling_.back(), backwards_) <= level)
      falling_.pop_back();
    falling_.push_back(window_end_);
  }
  while (falling_begin_ < falling_.size() && falling_[falling_begin_] < from) ++falling_begin_;
  std::int64_t highest = backward_stores_[static_cast<std::size_t>(from)];
  if (falling_begin_ < falling_.size())
    highest = std::max(highest, backward_level(falling_[falling_begin_], backwards_));
  for (std::int32_t b = fixed; b < to; ++b) highest = std::max(highest, backward_level(b, to));
  return highest;
}

Bytes MemoryGuard::peak_after_forward(std::int32_t f, std::int32_t b) {
  if (f >= forwards_) return Bytes(0);
  b = std::min(b, backwards_);
  const auto at = static_cast<std::size_t>(f);
  const std::int64_t during = forward_stores_[at + 1] + forward_transient_[at] +
                              waiting_forwards(f + 1) +
                              backward_stores_[static_cast<std::size_t>(b)] +
                              backward_inputs_.sum(b, std::min(b + slots_, enabled_[at]));
  const std::int64_t after =
      forward_stores_[at + 1] + waiting_forwards(f + 1) + highest_backward(b, enabled_[at + 1]);
  return Bytes(std::max(during, after));
}

Bytes MemoryGuard::least_cap() const {
  Bytes highest = before_start();
  MemoryGuard walk = *this;
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
