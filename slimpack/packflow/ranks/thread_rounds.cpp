#include "slimpack/packflow/ranks/thread_rounds.h"

#include <algorithm>
#include <utility>

#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"

namespace slimpack {

ThreadRounds::Round& ThreadRounds::round(std::uint64_t number) {
  while (number - first_ >= rounds_.size())
    rounds_.emplace_back().given.resize(static_cast<std::size_t>(size_));
  return rounds_[number - first_];
}

void ThreadRounds::give(std::uint64_t number, std::int32_t member, Given given, std::int32_t step) {
  given.rank = tracked_rank();
  const auto lock = room_.lock();
  Round& r = round(number);
  r.given[static_cast<std::size_t>(member)] = std::move(given);
  if (++r.gave < size_) return;
  r.arrivals = arrivals_of(r, step);
  if (step != 0) charge_receivers(r, step);
  room_.notify();
}

std::vector<Nanos> ThreadRounds::arrivals_of(const Round& round, std::int32_t step) const {
  if (arrivals_) return arrivals_(round.given, step);
  return std::vector<Nanos>(round.given.size(), last_given(round));
}

Nanos ThreadRounds::last_given(const Round& round) {
  return std::ranges::max_element(round.given, {}, &Given::time)->time;
}

// First all tensors leave their givers, then they arrive, so that no member counts both its old and
// its new ones.
void ThreadRounds::charge_receivers(const Round& round, std::int32_t step) const {
  for (const Given& given : round.given)
    for (const at::Tensor& tensor : given.tensors) charge_to(tensor, kMaxTrackedRanks);
  for (std::int32_t m = 0; m < size_; ++m)
    for (const at::Tensor& tensor : round.given[static_cast<std::size_t>(m)].tensors)
      charge_to(tensor, round.given[static_cast<std::size_t>(member_at(m + step))].rank);
}

void ThreadRounds::await_given(std::uint64_t number, RankClock& clock) {
  auto lock = room_.lock();
  room_.wait(lock, clock, [&] { return round(number).gave == size_; });
  clock.wait_until(last_given(round(number)));
}

void ThreadRounds::await(std::uint64_t number, std::int32_t member, RankClock& clock) {
  auto lock = room_.lock();
  room_.wait(lock, clock, [&] { return round(number).gave == size_; });
  clock.wait_until(round(number).arrivals[static_cast<std::size_t>(member)]);
}

std::vector<ThreadRounds::Given> ThreadRounds::take(std::uint64_t number) {
  const auto lock = room_.lock();
  std::vector<Given> result = round(number).given;
  took(number);
  for (const Given& given : result) {
    given.ready.order_queue_after();
    for (const at::Tensor& tensor : given.tensors) keep_for_queue(tensor);
  }
  return result;
}

ThreadRounds::Tensors ThreadRounds::take_from(std::uint64_t number, std::int32_t member) {
  const auto lock = room_.lock();
  Given& given = round(number).given[static_cast<std::size_t>(member)];
  given.ready.order_queue_after();
  Tensors result = std::move(given.tensors);
  took(number);
  for (const at::Tensor& tensor : result) keep_for_queue(tensor);
  return result;
}

void ThreadRounds::took(std::uint64_t number) {
  ++round(number).took;
  while (!rounds_.empty() && rounds_.front().took == size_) {
    rounds_.pop_front();
    ++first_;
  }
}

}  // namespace slimpack
