// Communication between the ranks of a job.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace slimpack {

enum class Direction : std::uint8_t {
  kForward,   ///< activations, to the next stage
  kBackward,  ///< their gradients, to the stage before
};

/// [begin, end) of `size` elements that belong to member `index` of `members`, which share them
/// evenly.
struct Shard {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  Shard(std::int64_t size, std::int32_t members, std::int32_t index)
      : begin(size * index / members), end(size * (index + 1) / members) {}
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] at::Tensor of(const at::Tensor& flat_N) const {
    return flat_N.narrow(0, begin, size());
  }
};

/// One member's end of a group of ranks. Every member makes the same calls in the same order; sums
/// are added in member order, so they are the same bits on all members and in every run. Every call
/// ends with an exception once any rank of the job has failed.
class Collective {
 public:
  virtual ~Collective() = default;

  [[nodiscard]] virtual std::int32_t size() const = 0;
  [[nodiscard]] virtual std::int32_t index() const = 0;

  /// Every member's tensor; they have the same sizes. Nobody writes to what was given from then on.
  [[nodiscard]] virtual std::vector<at::Tensor> all_gather(at::Tensor own) = 0;

  /// Every member's tensor at the first member, elsewhere none. They may have different numbers of
  /// rows. What was given is the caller's alone again.
  [[nodiscard]] virtual std::vector<at::Tensor> gather(const at::Tensor& own) = 0;

  /// Every member's rows in one tensor: row i of member m is its row rows_of[m][i] (int64). What
  /// was given is the caller's alone again.
  [[nodiscard]] virtual at::Tensor all_gather_rows(const at::Tensor& own,
                                                   const std::vector<at::Tensor>& rows_of) = 0;

  /// The other way: of the sum of all members' tensors, rows rows_of[index()]. What was given is
  /// the caller's alone again.
  [[nodiscard]] virtual at::Tensor reduce_scatter_rows(const at::Tensor& part,
                                                       const std::vector<at::Tensor>& rows_of) = 0;

  /// Begins to hand the tensors over to the member `step` places after this one, counted in a
  /// circle, and to get those of the member `step` places before it, which have `rows` rows. Does
  /// not wait. The caller gives its own up.
  virtual void start_shift(std::vector<at::Tensor> tensors, std::int32_t step,
                           std::int64_t rows) = 0;
  /// Waits for what the oldest one that is not finished gets.
  [[nodiscard]] virtual std::vector<at::Tensor> finish_shift() = 0;

  /// Replaces the tensor by the sum of all members'.
  virtual void all_reduce(at::Tensor& tensor) = 0;

  /// Σ of `value` over all members; also a barrier.
  [[nodiscard]] virtual double sum(double value) = 0;

  /// Waits for all members.
  void meet() { static_cast<void>(sum(0)); }

  /// Begins to sum tensors of one size over all members: each will have the sum in its own Shard,
  /// the rest stays as it is. Does not wait. Until it is finished, members leave the tensor alone.
  virtual void start_reduce_scatter(at::Tensor flat_N) = 0;
  /// Waits until all members have started the oldest one that is not finished.
  virtual void await_reduce_scatter() = 0;
  /// Finishes the oldest one. Own memory may be written to at once, but what others' shards are in
  /// only after all members have met.
  virtual void finish_reduce_scatter() = 0;

  /// Fills the tensor with every member's Shard of its own. The tensor may be written to again only
  /// after all members have met.
  virtual void all_gather_shards(at::Tensor& flat_N) = 0;
};

/// The messages of one direction that a rank will receive in a step, in their order.
struct ExpectedMessages {
  std::vector<std::int64_t> rows;
  std::int64_t width = 0;  ///< elements of a row
  at::TensorOptions options;
};

/// One rank's ends.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Said once in a step and direction, before anything is received from there: memory can be at
  /// hand when a message comes.
  virtual void expect(Direction direction, ExpectedMessages messages) = 0;

  /// Hands `rows_TH` to the neighbouring stage; waits while the channel has no free slot. The
  /// caller gives it up. Messages of one direction arrive in the order in which they were sent.
  virtual void send(Direction direction, at::Tensor rows_TH) = 0;

  /// The next message of that direction; waits for it. Frees its slot.
  [[nodiscard]] virtual at::Tensor receive(Direction direction) = 0;

  /// Throws once any rank of the job has failed, as whatever waits does. Does not wait.
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
