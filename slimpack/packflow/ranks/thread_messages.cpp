#include "slimpack/packflow/ranks/thread_messages.h"

#include <utility>

#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"

namespace slimpack {

void ThreadMessages::put(std::int32_t from, std::int32_t to, Message message) {
  const auto lock = room_.lock();
  if (message.given)
    for (const at::Tensor& tensor : message.tensors) charge_to(tensor, group_.rank(to));
  box(from, to).push_back(std::move(message));
  room_.notify();
}

std::vector<at::Tensor> ThreadMessages::take(std::int32_t from, std::int32_t to, RankClock& clock) {
  auto lock = room_.lock();
  std::deque<Message>& own = box(from, to);
  room_.wait(lock, clock, [&] { return !own.empty(); });
  Message message = std::move(own.front());
  own.pop_front();
  clock.wait_until(message.arrives);
  message.ready.order_queue_after();
  for (const at::Tensor& tensor : message.tensors) keep_for_queue(tensor);
  return std::move(message.tensors);
}

void ThreadMessagesEnd::put(std::vector<at::Tensor> tensors, bool given, std::int32_t to) {
  Nanos arrives = clock_.now();
  if (link_ != nullptr) arrives = link_->arrival(arrives, messages_.rank(to), bytes_of(tensors));
  messages_.put(
      index_, to,
      {std::move(tensors), given, arrives, WorkMark(clock_.device(), WorkMark::Kind::kOrder)});
}

ThreadChannel::ThreadChannel(SharedFailure& failure, std::int32_t receiver, int slots)
    : room_(failure), receiver_(receiver), free_slots_(static_cast<std::size_t>(slots), Nanos(0)) {}

void ThreadChannel::send(RankClock& clock, SenderLink* link, at::Tensor rows_TH) {
  auto lock = room_.lock();
  room_.wait(lock, clock, [&] { return !free_slots_.empty(); });
  clock.wait_until(free_slots_.front());
  free_slots_.pop_front();
  charge_to(rows_TH, clock.is_virtual() ? kMaxTrackedRanks : receiver_);
  Nanos put = clock.now();
  if (link != nullptr)
    put = link->arrival(put, receiver_, Bytes(static_cast<std::int64_t>(rows_TH.nbytes())));
  messages_.push_back({std::move(rows_TH), put, WorkMark(clock.device(), WorkMark::Kind::kOrder)});
  room_.notify();
}

at::Tensor ThreadChannel::receive(RankClock& clock, std::vector<WaitedInput>& waited) {
  auto lock = room_.lock();
  room_.wait(lock, clock, [&] { return !messages_.empty(); });
  Message message = std::move(messages_.front());
  messages_.pop_front();
  clock.wait_until(message.put);
  const Nanos taken = clock.now();
  free_slots_.push_back(taken);
  if (clock.is_virtual())
    waited.push_back({message.put, taken, charge_to(message.rows_TH, receiver_)});
  room_.notify();
  message.ready.order_queue_after();
  keep_for_queue(message.rows_TH);
  return std::move(message.rows_TH);
}

}  // namespace slimpack
