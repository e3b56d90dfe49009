// Work marks: places in the queue of a rank's work on its device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <memory>

#include "slimpack/base/units.h"

namespace slimpack {

/// A mark of the work that a thread had asked of a device at some moment. Copies are the same mark.
/// A mark of a CPU is empty: its work is done when a call returns.
class WorkMark {
 public:
  enum class Kind : bool { kOrder, kTime };

  WorkMark() = default;
  /// All that the calling thread has asked of the device so far. `kind`: whether since() may be
  /// asked for.
  WorkMark(c10::Device device, Kind kind);

  /// The calling thread's later work on the device waits for the mark. The host does not wait.
  void order_queue_after() const;
  /// The host waits until the device has reached the mark, unless it is known to have done so.
  void await() const;
  /// The time between two marks on the device. REQUIRES: kTime, and both were awaited.
  [[nodiscard]] Nanos since(const WorkMark& earlier) const;

 private:
  std::shared_ptr<c10::Event> event_;  ///< null = nothing
};

}  // namespace slimpack
