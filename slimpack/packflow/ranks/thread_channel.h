// A channel between two neighbouring stages whose ranks are threads. Tensors are handed over
// without a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/link_times.h"
#include "slimpack/packflow/ranks/thread_room.h"

namespace slimpack {

/// Thread-safe for one sender and one receiver.
class ThreadChannel {
 public:
  /// Messages are charged to rank `receiver` from the moment they are put. In virtual time nobody
  /// is charged until they are taken.
  ThreadChannel(SharedFailure& failure, std::int32_t receiver, int slots);

  /// `link`: the sender's, in virtual time over links; else null.
  void send(RankClock& clock, SenderLink* link, at::Tensor rows_TH);
  /// In virtual time adds the message to `waited`.
  [[nodiscard]] at::Tensor receive(RankClock& clock, std::vector<WaitedInput>& waited);

 private:
  struct Message {
    at::Tensor rows_TH;
    Nanos put;       ///< when it is there
    WorkMark ready;  ///< of the sender's work
  };
  ThreadRoom room_;
  std::int32_t receiver_;
  std::deque<Message> messages_;
  std::deque<Nanos> free_slots_;  ///< when each became free, by the receiver's clock
};

}  // namespace slimpack
