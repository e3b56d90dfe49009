// Messages between the processes of a group, through one of PyTorch's process groups (c10d).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "slimpack/packflow/ranks/rank_groups.h"

namespace slimpack {

/// Another process does not answer, or has closed its connection.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One process's end of a group, in which every pair of members counts its messages.
class ProcessPeers {
 public:
  /// `backend` has the group's ranks as members, in their order; null in a group of one.
  ProcessPeers(RankGroup group, c10::intrusive_ptr<c10d::ProcessGroup> backend);

  [[nodiscard]] const RankGroup& group() const { return group_; }
  [[nodiscard]] std::int32_t index() const { return backend_ ? backend_->getRank() : 0; }

  /// A message under way. Its tensor is kept until it has arrived.
  class Message {
   public:
    /// Waits until it has arrived, or at the sender until it has left. Throws PeerLost, also when
    /// the group's timeout is over. Once.
    void wait();
    [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }

   private:
    friend class ProcessPeers;
    const ProcessPeers* peers_ = nullptr;
    std::int32_t member_ = 0;
    at::Tensor tensor_;
    c10::intrusive_ptr<c10d::Work> work_;  ///< null: nothing to wait for
  };

  /// Begins to send or to receive; does not wait. Messages from one member to another arrive in the
  /// order of their calls; what is received has the type and number of elements of what was sent.
  /// REQUIRES: contiguous, and left alone until it has been waited for.
  [[nodiscard]] Message send(at::Tensor tensor, std::int32_t member);
  [[nodiscard]] Message receive(at::Tensor tensor, std::int32_t member);

  struct Transfer {
    enum class Kind : bool { kSend, kReceive } kind;
    at::Tensor tensor;
    std::int32_t member;
  };
  /// Begins several at once, of tensors on one device: what two members send each other does not
  /// wait for its turn, which NCCL otherwise has both wait for.
  [[nodiscard]] std::vector<Message> begin(std::vector<Transfer> transfers);

 private:
  using Counts = std::vector<std::int32_t>;  ///< by member: messages so far
  using Operation = c10::intrusive_ptr<c10d::Work> (c10d::ProcessGroup::*)(std::vector<at::Tensor>&,
                                                                           int member, int tag);
  [[nodiscard]] Message begin_one(at::Tensor tensor, std::int32_t member, Counts& counts,
                                  Operation operation);
  [[nodiscard]] PeerLost lost(std::int32_t member, const std::exception& cause) const;

  RankGroup group_;
  c10::intrusive_ptr<c10d::ProcessGroup> backend_;
  Counts sent_, received_;
};

}  // namespace slimpack
