// Queues of the pretended device. Computations are done when a call returns; copies that need not
// be waited for are put off as long as a real queue could put them off: until somebody waits for
// them, or their own queue computes. So whoever reads or gives up memory too early is caught; races
// of computations are caught by pretended_order.h.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "slimpack/base/units.h"

namespace slimpack::testing {

/// Runs `copy` at the end of the queue, when something waits for that.
void put_off(c10::StreamId queue, std::function<void()> copy);
/// The queue is given work that runs now: work that it has put off runs first.
void run_now(c10::StreamId queue);

/// A place in a queue.
struct QueueMark {
  c10::StreamId queue = 0;
  std::int64_t position = 0;                    ///< among what was put off
  std::int64_t given = 0;                       ///< the work before it
  std::map<c10::StreamId, std::int64_t> after;  ///< work of other queues before it
  /// When the queue came there, if it has; null = not asked for.
  std::shared_ptr<std::optional<Nanos>> time;
};
[[nodiscard]] QueueMark end_of(c10::StreamId queue);
/// The end of the queue so far. Notes the time when the queue comes there.
[[nodiscard]] QueueMark timed_end_of(c10::StreamId queue);

/// Lets the queue's later work wait for the mark: runs what was put off up to there.
void let_wait(c10::StreamId queue, const QueueMark& mark);
/// Lets the host wait for the mark. From then on the host knows that the queue has come there.
void host_waits_for(const QueueMark& mark);
/// Whether the host knows that the queue has come there.
[[nodiscard]] bool known_reached(const QueueMark& mark);
/// Whether work that `queue` is given now comes after the mark: it is of the same queue, some event
/// orders the two, or the host has waited for it.
[[nodiscard]] bool comes_after(c10::StreamId queue, const QueueMark& mark);

}  // namespace slimpack::testing
