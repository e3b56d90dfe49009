// Queues of the pretended device. What computes is done when a call returns; copies that need not
// be waited for are put off as long as a real queue could put them off: until somebody waits for
// them, or their own queue computes. So whoever reads or gives up memory too early is caught.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>

namespace slimpack::testing {

/// Runs `copy` at the end of the queue, when something waits for that.
void put_off(c10::StreamId queue, std::function<void()> copy);

/// A place in a queue.
struct QueueMark {
  c10::StreamId queue = 0;
  std::int64_t position = 0;
};
[[nodiscard]] QueueMark end_of(c10::StreamId queue);

/// Runs what the queue has put off up to there.
void wait_for(const QueueMark& mark);

}  // namespace slimpack::testing
