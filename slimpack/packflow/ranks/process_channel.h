// A channel between neighbouring pipeline ranks that are processes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>

#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// One rank's two ends in one direction: it receives from one neighbour and sends to the other.
/// Messages travel while both compute. Used by one thread at a time.
class ProcessChannel {
 public:
  /// The groups with the rank that sends and with the rank that receives; null where there is none.
  /// `held`: sends that may wait for their receives, each with its memory.
  ProcessChannel(ProcessPeers* source, ProcessPeers* target, int held)
      : source_(source), target_(target), held_(static_cast<std::size_t>(held)) {}

  /// REQUIRES: receives of all stages are posted in the order in which the other rank sends.
  void post_receive(std::int32_t local_stage, const MessageForm& form);
  void send(at::Tensor rows_TH);
  [[nodiscard]] at::Tensor receive(std::int32_t local_stage);

  /// Waits until all sent messages have left.
  void settle();

 private:
  ProcessPeers* source_;
  ProcessPeers* target_;
  std::size_t held_;
  std::map<std::int32_t, std::deque<ProcessPeers::Message>> incoming_;  ///< by local stage
  std::deque<ProcessPeers::Message> outgoing_;
};

}  // namespace slimpack
