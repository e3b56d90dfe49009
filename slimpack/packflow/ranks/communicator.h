// Communication between the ranks of a job.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "slimpack/packflow/ranks/collective.h"

namespace slimpack {

enum class Direction : std::uint8_t {
  kForward,   ///< activations, to the next stage
  kBackward,  ///< their gradients, to the stage before
};

/// The messages of one direction that a rank will receive in a step, in their order.
struct ExpectedMessages {
  std::vector<std::int64_t> rows;
  std::int64_t width = 0;  ///< elements of a row
  at::TensorOptions options;
};

/// One rank's ends of its channels and groups.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Announces the messages from one direction, once in a step and before the first is received, so
  /// that memory can be ready for them.
  virtual void expect(Direction direction, ExpectedMessages messages) = 0;

  /// Hands `rows_TH` to the neighbouring stage; waits while the channel has no free slot. The
  /// caller gives it up. Messages of one direction arrive in the order in which they were sent.
  virtual void send(Direction direction, at::Tensor rows_TH) = 0;

  /// The next message of that direction; waits for it. Frees its slot.
  [[nodiscard]] virtual at::Tensor receive(Direction direction) = 0;

  /// Throws if any rank of the job has failed, as every call that waits does. Does not wait.
  virtual void require_peers() = 0;

  /// All ranks of the job.
  [[nodiscard]] virtual Collective& world() = 0;
  /// The ranks that hold the same parameters in all replicas.
  [[nodiscard]] virtual Collective& data() = 0;
  /// Of them, those of the `replicas` that run merged MicroPacks together (MicroPack::replicas).
  /// REQUIRES: a power of two from 2 on, and the rank's group is complete.
  [[nodiscard]] virtual Collective& context(std::int32_t replicas) = 0;
  /// The tensor-parallel ranks of the stage.
  [[nodiscard]] virtual Collective& tensor() = 0;
  /// First and last stage of the replica, which hold the same embedding when a model ties its
  /// matrices. REQUIRES: the rank is one of these two and they are not the same.
  [[nodiscard]] virtual Collective& tied() = 0;
};

}  // namespace slimpack
