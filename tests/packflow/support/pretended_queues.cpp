#include "tests/packflow/support/pretended_queues.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "slimpack/base/progress.h"

namespace slimpack::testing {
namespace {

struct Queue {
  std::deque<std::function<void()>> waiting;
  std::int64_t ran = 0;
  std::int64_t given = 0;                       ///< work, whether it was put off or not
  std::int64_t reached = 0;                     ///< of it, what the host has waited for
  std::map<c10::StreamId, std::int64_t> after;  ///< work of others that events put before its next
};

std::mutex queues_mutex;
std::map<c10::StreamId, Queue> queues;

QueueMark mark_of(c10::StreamId id, const Queue& queue) {
  return {id, queue.ran + static_cast<std::int64_t>(queue.waiting.size()), queue.given, queue.after,
          nullptr};
}

/// Puts the mark, and what comes before it, before what is asked next.
void raise(std::map<c10::StreamId, std::int64_t>& after, const QueueMark& mark) {
  const auto put = [&](c10::StreamId queue, std::int64_t given) {
    after[queue] = std::max(after[queue], given);
  };
  put(mark.queue, mark.given);
  for (const auto& [queue, given] : mark.after) put(queue, given);
}

void run_to(Queue& queue, std::int64_t position) {
  while (queue.ran < position) {
    const std::function<void()> copy = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.ran;
    copy();
  }
}

}  // namespace

void put_off(c10::StreamId queue, std::function<void()> copy) {
  const std::lock_guard lock(queues_mutex);
  queues[queue].waiting.push_back(std::move(copy));
  ++queues[queue].given;
}

void run_now(c10::StreamId queue) {
  const std::lock_guard lock(queues_mutex);
  Queue& own = queues[queue];
  ++own.given;
  run_to(own, mark_of(queue, own).position);
}

QueueMark end_of(c10::StreamId queue) {
  const std::lock_guard lock(queues_mutex);
  return mark_of(queue, queues[queue]);
}

QueueMark timed_end_of(c10::StreamId queue) {
  const std::lock_guard lock(queues_mutex);
  Queue& own = queues[queue];
  const auto time = std::make_shared<std::optional<Nanos>>();
  if (own.waiting.empty()) {
    *time = monotonic_now();
  } else {
    own.waiting.push_back([time] { *time = monotonic_now(); });
  }
  QueueMark mark = mark_of(queue, own);
  mark.time = time;
  return mark;
}

void let_wait(c10::StreamId queue, const QueueMark& mark) {
  const std::lock_guard lock(queues_mutex);
  run_to(queues[mark.queue], mark.position);
  raise(queues[queue].after, mark);
}

void host_waits_for(const QueueMark& mark) {
  const std::lock_guard lock(queues_mutex);
  Queue& own = queues[mark.queue];
  run_to(own, mark.position);
  own.reached = std::max(own.reached, mark.given);
  for (const auto& [other, given] : mark.after)
    queues[other].reached = std::max(queues[other].reached, given);
}

bool known_reached(const QueueMark& mark) {
  const std::lock_guard lock(queues_mutex);
  return queues[mark.queue].reached >= mark.given;
}

bool comes_after(c10::StreamId queue, const QueueMark& mark) {
  const std::lock_guard lock(queues_mutex);
  if (queue == mark.queue || queues[mark.queue].reached >= mark.given) return true;
  const auto& after = queues[queue].after;
  const auto it = after.find(mark.queue);
  return it != after.end() && it->second >= mark.given;
}

}  // namespace slimpack::testing
