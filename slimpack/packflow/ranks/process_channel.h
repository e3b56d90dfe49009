// A channel between two neighbouring stages that are processes. Receives are posted ahead, so that
// messages travel while both stages compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>

#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// One rank's two ends in one direction: it receives from one neighbouring stage and sends to the
/// other. Used by one thread at a time.
class ProcessChannel {
 public:
  /// `step` is 1 if messages go to higher stages, −1 if they go to lower stages. The sender holds
  /// up to `slots` messages that the receiver has not taken.
  ProcessChannel(ProcessPeers& peers, std::int32_t step, int slots)
      : peers_(peers), step_(step), slots_(static_cast<std::size_t>(slots)) {}

  /// Announces the messages of a step. REQUIRES: all messages of the step before were received.
  void expect(ExpectedMessages messages);
  void send(at::Tensor rows_TH);
  [[nodiscard]] at::Tensor receive();

  /// Waits until all sent messages have left.
  void settle();

 private:
  /// Posts the next receives, so that messages travel while the rank works on the one before.
  static constexpr std::size_t kAhead = 2;
  void post();

  ProcessPeers& peers_;
  std::int32_t step_;
  std::size_t slots_;
  ExpectedMessages expected_;
  std::size_t next_ = 0;  ///< of expected_.rows
  std::deque<ProcessPeers::Message> incoming_, outgoing_;
};

}  // namespace slimpack
