// Communication between the pipeline's ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace slimpack {

enum class Direction : std::uint8_t {
  kForward,   ///< activations, to the next stage
  kBackward,  ///< their gradients, to the stage before
};

/// One rank's end. Messages of one direction arrive in the order in which they were sent; their
/// sizes are known to both sides from the plan. Every call ends with an exception once any rank of
/// the group has failed.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Hands `rows_TH` over; waits while the channel has no free slot. The caller gives it up.
  virtual void send(Direction direction, at::Tensor rows_TH) = 0;

  /// The next message of that direction; waits for it. Frees its slot.
  [[nodiscard]] virtual at::Tensor receive(Direction direction) = 0;

  /// Σ of `value` over all ranks, added in rank order; also a barrier.
  [[nodiscard]] virtual double sum(double value) = 0;

  /// First and last stage of a tied model: replaces `gradient` by the sum of both. Other ranks do
  /// not call it.
  virtual void sum_tied(at::Tensor& gradient) = 0;
};

}  // namespace slimpack
