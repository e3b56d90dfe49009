// A channel between neighbouring stages that are processes.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>

#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// One rank's two ends in one direction: it receives from one neighbouring stage and sends to the
/// other. Messages travel while both stages compute. Used by one thread at a time.
class ProcessChannel {
 public:
  /// The groups with the stage that sends and with the stage that receives; null where there is
  /// none. `held`: sends that may wait for their receives, each with its memory.
  ProcessChannel(ProcessPeers* source, ProcessPeers* target, int held)
      : source_(source), target_(target), held_(static_cast<std::size_t>(held)) {}

  void post_receive(const MessageForm& form);
  void send(at::Tensor rows_TH);
  [[nodiscard]] at::Tensor receive();

  /// Waits until all sent messages have left.
  void settle();

 private:
  ProcessPeers* source_;
  ProcessPeers* target_;
  std::size_t held_;
  std::deque<ProcessPeers::Message> incoming_, outgoing_;
};

}  // namespace slimpack
