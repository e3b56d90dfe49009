// Messages between the processes of a group, through one of PyTorch's process groups (c10d), and
// the channel of them between neighbouring pipeline ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/rank_grid.h"

namespace slimpack {

/// Another process does not answer, or closed its connection.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One process's end of a group. Every pair of members counts its messages.
class ProcessPeers {
 public:
  /// `name`: PyTorch's name of the process group whose members are the group's ranks, in their
  /// order. Not used for a group of one.
  ProcessPeers(RankGroup group, const std::string& name);
  ~ProcessPeers();
  ProcessPeers(const ProcessPeers&) = delete;
  ProcessPeers& operator=(const ProcessPeers&) = delete;

  [[nodiscard]] const RankGroup& group() const { return group_; }
  [[nodiscard]] std::int32_t index() const { return index_; }

  struct Travel;  ///< of one message or of several: PyTorch's work

  /// A travelling message. It keeps its tensor alive.
  class Message {
   public:
    /// Waits until the message has arrived or, at the sender, has left. Throws PeerLost, also after
    /// the group's timeout. Called once.
    void wait();
    /// Whether wait() is known to return at once.
    [[nodiscard]] bool done() const;
    [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }

   private:
    friend class ProcessPeers;
    const ProcessPeers* peers_ = nullptr;
    std::int32_t member_ = 0;  ///< kAnyMember: all of them take part
    at::Tensor tensor_;
    std::shared_ptr<Travel>
        travel_;  ///< null if the message need not travel, or has been waited for
  };

  /// Begins to send or to receive; does not wait. Messages from one member to another arrive in the
  /// order of their calls. REQUIRES: a received tensor has the type and number of elements of the
  /// sent one; tensors are contiguous, and nobody touches them until wait() returns.
  [[nodiscard]] Message send(at::Tensor tensor, std::int32_t member);
  [[nodiscard]] Message receive(at::Tensor tensor, std::int32_t member);

  /// Sets how long an operation that the process group begins from now on may take before it has
  /// failed.
  void set_timeout(Nanos timeout);

  struct Transfer {
    enum class Kind : bool { kSend, kReceive } kind;
    at::Tensor tensor;
    std::int32_t member;
  };
  /// Begins several transfers at once, of tensors on one device. If two members began to send to
  /// each other one by one, NCCL would let the messages wait for each other.
  [[nodiscard]] std::vector<Message> begin(std::vector<Transfer> transfers);

  /// Collectives of PyTorch's backend; they do not wait. In rows_MS row m is member m's. Sums are
  /// added in the backend's order. REQUIRES: as send(), and all members make the same calls in one
  /// order.
  /// The member's own row becomes the sum of all members' rows at that place.
  [[nodiscard]] Message reduce_scatter(at::Tensor rows_MS);
  /// Every row comes from its member.
  [[nodiscard]] Message all_gather(at::Tensor rows_MS);
  /// The tensor becomes the sum of all members' tensors.
  [[nodiscard]] Message all_reduce(at::Tensor tensor);

 private:
  static constexpr std::int32_t kAnyMember = -1;
  using Counts = std::vector<std::int32_t>;  ///< by member: messages so far
  struct Backend;                            ///< PyTorch's process group
  [[nodiscard]] Message begin_one(Transfer transfer);
  /// An operation of all members on one tensor. `start(backend, tensor, own row)` begins it.
  template <class Start>
  [[nodiscard]] Message begin_collective(at::Tensor tensor, const Start& start);
  [[nodiscard]] PeerLost lost(std::int32_t member, const std::exception& cause) const;

  RankGroup group_;
  std::unique_ptr<Backend> backend_;  ///< null in a group of one
  std::int32_t index_ = 0;
  Counts sent_, received_;
};

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
