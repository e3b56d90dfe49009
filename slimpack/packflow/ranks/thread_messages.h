// Messages between ranks that are threads: between any two of a group, and between neighbouring
// stages. Tensors are handed over without a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/link_times.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/thread_room.h"

namespace slimpack {

/// The shared side of a group. Thread-safe; outlives its members' ends.
class ThreadMessages {
 public:
  ThreadMessages(SharedFailure& failure, const RankGroup& group) : room_(failure), group_(group) {}

  struct Message {
    std::vector<at::Tensor> tensors;
    bool given;  ///< they count as the receiver's memory
    Nanos arrives;
    WorkMark ready;  ///< of the sender's work
  };
  void put(std::int32_t from, std::int32_t to, Message message);
  [[nodiscard]] std::int32_t rank(std::int32_t member) const { return group_.rank(member); }
  /// Waits for the next message.
  [[nodiscard]] std::vector<at::Tensor> take(std::int32_t from, std::int32_t to, RankClock& clock);

 private:
  [[nodiscard]] std::deque<Message>& box(std::int32_t from, std::int32_t to) {
    return boxes_[{from, to}];
  }

  ThreadRoom room_;
  RankGroup group_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Message>> boxes_;  ///< by from, to
};

/// One member's end. Only that member's thread uses it and the clock.
class ThreadMessagesEnd final : public Messages {
 public:
  /// `link`: the member's, in virtual time over links; else null.
  ThreadMessagesEnd(ThreadMessages& messages, std::int32_t index, RankClock& clock,
                    SenderLink* link)
      : messages_(messages), index_(index), clock_(clock), link_(link) {}

  void lend(std::vector<at::Tensor> tensors, std::int32_t to) override {
    put(std::move(tensors), false, to);
  }
  void give(std::vector<at::Tensor> tensors, std::int32_t to) override {
    put(std::move(tensors), true, to);
  }
  /// Does nothing: the receiver gets the sender's tensors themselves.
  void start_receive(const std::vector<TensorForm>& /*forms*/, std::int32_t /*from*/) override {}
  std::vector<at::Tensor> finish_receive(std::int32_t from) override {
    return messages_.take(from, index_, clock_);
  }

 private:
  void put(std::vector<at::Tensor> tensors, bool given, std::int32_t to);

  ThreadMessages& messages_;
  std::int32_t index_;
  RankClock& clock_;
  SenderLink* link_;
};

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
