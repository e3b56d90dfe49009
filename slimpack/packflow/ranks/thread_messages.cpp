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

}  // namespace slimpack
