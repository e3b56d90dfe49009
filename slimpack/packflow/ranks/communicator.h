// Communication between the ranks of a job.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/rank_grid.h"

namespace slimpack {

enum class Direction : std::uint8_t {
  kForward,   ///< activations, to the next stage
  kBackward,  ///< gradients of activations, to the previous stage
};

/// Where the messages of one direction arrive: at a stage of the sender's replica.
struct Inbox {
  Direction direction = Direction::kForward;
  StageId stage;
};

/// The form of a message: the receiver makes room for it before it is sent.
struct MessageForm {
  std::int64_t rows = 0;
  std::int64_t width = 0;  ///< elements of a row
  at::TensorOptions options;
};

/// A message that waited for its receiver in virtual time.
struct WaitedInput {
  Nanos put;    ///< by the sender's clock
  Nanos taken;  ///< by the receiver's clock
  Bytes bytes;

  bool operator==(const WaitedInput&) const = default;
};

/// One rank's ends of its channels and groups.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Begins to receive the next message of an inbox of this rank. Does not wait. REQUIRES: a rank
  /// posts the receives of one direction in the order in which the other rank sends.
  virtual void post_receive(Inbox inbox, const MessageForm& form) = 0;

  /// Hands `rows_TH` to a neighbouring stage; waits while its inbox has no free slot. The caller
  /// must not use the tensor any more. The messages of an inbox arrive in the order of sending.
  virtual void send(Inbox inbox, at::Tensor rows_TH) = 0;

  /// Waits for the message of the inbox whose receive was posted first, and frees its slot.
  [[nodiscard]] virtual at::Tensor receive(Inbox inbox) = 0;

  /// Waits until all that this rank has sent has left. On a device the memory of messages comes
  /// back in the order of the calling thread's queue, so the rank's own thread calls this, at the
  /// end of its work. REQUIRES: the other ranks receive what was sent whatever this one does next.
  virtual void settle() = 0;

  /// The messages that this rank has received so far and that no rank's memory counter had while
  /// they waited: all of them in virtual time, none by the wall clock. A counter knows what ranks
  /// hold in the order in which they run, which in virtual time is not that of their clocks.
  [[nodiscard]] virtual std::span<const WaitedInput> waited_inputs() const = 0;

  /// Throws if any rank of the job has failed, or the job was asked to stop. Does not wait. Every
  /// call that waits throws once a rank has failed, too.
  virtual void require_peers() = 0;

  /// All ranks of the job.
  [[nodiscard]] virtual Collective& world() = 0;
  /// The ranks that hold the same parameters in all replicas.
  [[nodiscard]] virtual Collective& data() = 0;
  /// The part of data() that runs MicroPacks with MicroPack::replicas == replicas together.
  /// REQUIRES: `replicas` is a power of two from 2 on or all replicas, and the grid has all ranks
  /// of the group.
  [[nodiscard]] virtual Collective& context(std::int32_t replicas) = 0;
  /// The tensor-parallel ranks of the pipeline rank.
  [[nodiscard]] virtual Collective& tensor() = 0;
  /// The pipeline ranks of the replica with this rank's place in tensor(). REQUIRES: the grid
  /// exchanges context or spreads the vocabulary.
  [[nodiscard]] virtual Collective& pipeline() = 0;
  /// All ranks of the replica, pipeline rank by pipeline rank. REQUIRES: the grid spreads the
  /// vocabulary.
  [[nodiscard]] virtual Collective& vocabulary() = 0;
  /// The ranks of the replica's first and last stage. They hold the same embedding if the model
  /// ties its matrices. REQUIRES: the rank is one of these two, and they differ.
  [[nodiscard]] virtual Collective& tied() = 0;
};

/// The part of a communicator that threads and processes share: its groups by kind.
class GroupedCommunicator : public Communicator {
 public:
  [[nodiscard]] Collective& world() override { return group(GroupKind::kWorld); }
  [[nodiscard]] Collective& data() override { return group(GroupKind::kData); }
  [[nodiscard]] Collective& context(std::int32_t replicas) override {
    return group(GroupKind::kContext, replicas);
  }
  [[nodiscard]] Collective& tensor() override { return group(GroupKind::kTensor); }
  [[nodiscard]] Collective& pipeline() override { return group(GroupKind::kPipeline); }
  [[nodiscard]] Collective& vocabulary() override { return group(GroupKind::kVocabulary); }
  [[nodiscard]] Collective& tied() override { return group(GroupKind::kTied); }

 protected:
  /// Adds the rank's end of one of its collective_groups().
  void add(const RankGroup& group, Collective member) {
    groups_.emplace(key(group.kind, group.size), std::move(member));
  }

 private:
  using Key = std::pair<GroupKind, std::int32_t>;
  /// A rank has one group of each kind, but of kContext one of each size.
  static Key key(GroupKind kind, std::int32_t size) {
    return {kind, kind == GroupKind::kContext ? size : 0};
  }
  [[nodiscard]] Collective& group(GroupKind kind, std::int32_t size = 0) {
    const auto it = groups_.find(key(kind, size));
    SLIMPACK_CHECK(it != groups_.end(), "the rank is in no such group");
    return it->second;
  }

  std::map<Key, Collective> groups_;
};

}  // namespace slimpack
