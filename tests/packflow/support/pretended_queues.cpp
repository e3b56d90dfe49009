#include "tests/packflow/support/pretended_queues.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace slimpack::testing {
namespace {

struct Queue {
  std::deque<std::function<void()>> waiting;
  std::int64_t ran = 0;
};

std::mutex mutex;
std::map<c10::StreamId, Queue> queues;

}  // namespace

void put_off(c10::StreamId queue, std::function<void()> copy) {
  const std::lock_guard lock(mutex);
  queues[queue].waiting.push_back(std::move(copy));
}

QueueMark end_of(c10::StreamId queue) {
  const std::lock_guard lock(mutex);
  const Queue& own = queues[queue];
  return {queue, own.ran + static_cast<std::int64_t>(own.waiting.size())};
}

void wait_for(const QueueMark& mark) {
  const std::lock_guard lock(mutex);
  Queue& own = queues[mark.queue];
  while (own.ran < mark.position) {
    const std::function<void()> copy = std::move(own.waiting.front());
    own.waiting.pop_front();
    ++own.ran;
    copy();
  }
}

}  // namespace slimpack::testing
