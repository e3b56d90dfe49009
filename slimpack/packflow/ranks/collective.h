// Collectives: operations of all members of a group of ranks.
//
// There are five interfaces. Backends implement each in their own way (threads: one memory; c10d:
// messages). Every member of a group makes the same calls in the same order, but for Messages. Sums
// of rows are added in member order, those of shards pairwise (add_pairwise), so they have the same
// bits on all members and in every run. Every call throws once any rank of the job has failed.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// The elements [begin, end) of `size` that belong to member `index` of `members`. The members
/// share the elements evenly.
struct Shard {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  Shard(std::int64_t size, std::int32_t members, std::int32_t index)
      : begin(size * index / members), end(size * (index + 1) / members) {}
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  /// The part of this shard that belongs to member `index` of `members` that share it.
  [[nodiscard]] Shard part(std::int32_t members, std::int32_t index) const {
    Shard shard(size(), members, index);
    shard.begin += begin;
    shard.end += begin;
    return shard;
  }
  [[nodiscard]] at::Tensor of(const at::Tensor& flat_N) const {
    return flat_N.narrow(0, begin, size());
  }
};

/// The shard of so many parameters that a replica owns: a part of what its place in its node sums.
[[nodiscard]] Shard replica_shard(std::int64_t size, const RankGrid& grid, ReplicaId replica);

/// Gathers whole tensors and sums numbers of all members.
class Gathering {
 public:
  virtual ~Gathering() = default;

  /// The tensors of all members, which have the same sizes. Nobody may write to a given tensor
  /// afterwards.
  [[nodiscard]] virtual std::vector<at::Tensor> all_gather(at::Tensor own) = 0;

  /// The tensors of all members at the first member; none at the others. The tensors may have
  /// different numbers of rows. The caller may write to its tensor again.
  [[nodiscard]] virtual std::vector<at::Tensor> gather(const at::Tensor& own) = 0;

  /// Σ of `value` over all members; also a barrier.
  [[nodiscard]] virtual double sum(double value) = 0;
};

/// The rows of a tensor that each member of a group holds. The numbers (int64) lie where the rows
/// do when a group uses them.
struct MemberRows {
  /// rows_of: by member, the numbers of its rows, on a CPU, where the tensors lie at first.
  explicit MemberRows(const std::vector<at::Tensor>& rows_of);

  [[nodiscard]] std::int64_t rows() const { return order_T.numel(); }
  [[nodiscard]] at::Tensor of(std::int32_t member) const;
  [[nodiscard]] std::array<at::Tensor*, 2> tensors() { return {&order_T, &places_T}; }

  std::vector<std::int64_t> counts;  ///< by member
  at::Tensor order_T;                ///< the rows' numbers, member by member
  at::Tensor places_T;               ///< the reverse: row i is number places_T[i] in that order
};

/// Exchanges the rows of a tensor of which each member holds some, before and after a product on
/// all rows (sequence parallelism, arXiv:2205.05198).
class RowExchange {
 public:
  virtual ~RowExchange() = default;

  /// The rows of all members in one tensor. The caller may write to its tensor again.
  [[nodiscard]] virtual at::Tensor all_gather_rows(const at::Tensor& own,
                                                   const MemberRows& rows) = 0;

  /// The reverse: sums the tensors of all members and returns this member's rows. The caller may
  /// write to its tensor again.
  [[nodiscard]] virtual at::Tensor reduce_scatter_rows(const at::Tensor& part,
                                                       const MemberRows& rows) = 0;

  /// Gives each member the rows that are meant for it, given[member], and returns those that each
  /// gives to this one, of which there are counts[member]. Nobody may write to a given tensor any
  /// more.
  [[nodiscard]] virtual std::vector<at::Tensor> all_to_all(
      std::vector<at::Tensor> given, const std::vector<std::int64_t>& counts) = 0;
};

/// Passes tensors around a circle of neighbouring members. Other members take no part, and every
/// circle has shifts of its own. Members of several circles make their calls in one order.
class Shifts {
 public:
  virtual ~Shifts() = default;

  /// Begins to pass the tensors to the member of the circle `step` places after this one, and to
  /// get those of the member `step` places before it. `rows`: by member of the circle, those of
  /// each tensor that it passes. Does not wait for tensors from other nodes. The caller must not
  /// use its tensors any more. REQUIRES: a step that leads to another member.
  virtual void start_shift(std::vector<at::Tensor> tensors, const Zone& circle, std::int32_t step,
                           const std::vector<std::int64_t>& rows) = 0;
  /// Waits for the tensors that the oldest unfinished shift of the circle brings.
  [[nodiscard]] virtual std::vector<at::Tensor> finish_shift(const Zone& circle) = 0;
};

/// Sums parameters' gradients. Each member gets the sum of its own shard (ZeRO, arXiv:1910.02054).
/// replica_shard says which one that is; in other groups it is the Shard of the member's index.
class ShardReduction {
 public:
  virtual ~ShardReduction() = default;

  /// Begins to sum tensors of one size over all members. The sum replaces the member's own shard;
  /// the rest of its tensor may change, too. May wait until members have started the reductions
  /// before, but never for this one. Members must not touch the tensor until the reduction is
  /// finished.
  virtual void start_reduce_scatter(at::Tensor flat_N) = 0;
  /// Waits until all members have started the oldest unfinished reduction.
  virtual void await_reduce_scatter() = 0;
  /// Finishes the oldest reduction. The member may write to its own shard at once, to the others'
  /// shards only after a barrier.
  virtual void finish_reduce_scatter() = 0;

  /// Fills the tensor with the shards of all members, each from its owner. The tensor may be
  /// written to again only after a barrier.
  virtual void all_gather_shards(at::Tensor& flat_N) = 0;

  /// Replaces the tensor by the sum of all members' tensors.
  virtual void all_reduce(at::Tensor& tensor) = 0;
};

/// The form of a tensor that a member gets from another one.
struct TensorForm {
  std::vector<std::int64_t> sizes;
  at::TensorOptions options;
};

/// Tensors between two members; the others need not take part, once the group is connected. A
/// member's tensors arrive at another member in the order of sending. On a GPU a member's messages
/// run one after the other, whoever the other member is: all members' orders together must have no
/// circle. Nobody may write to a sent tensor any more.
class Messages {
 public:
  virtual ~Messages() = default;

  /// Sends tensors that the caller keeps until it has the answer to them. Does not wait.
  virtual void lend(std::vector<at::Tensor> tensors, std::int32_t to) = 0;
  /// Sends tensors that the caller gives up. Does not wait.
  virtual void give(std::vector<at::Tensor> tensors, std::int32_t to) = 0;
  /// Begins to receive what the member sends next. Does not wait.
  virtual void start_receive(const std::vector<TensorForm>& forms, std::int32_t from) = 0;
  /// Waits for the tensors of the oldest receive from the member that has been started.
  [[nodiscard]] virtual std::vector<at::Tensor> finish_receive(std::int32_t from) = 0;
};

/// One member's end of a group.
class Collective {
 public:
  struct Parts {
    std::unique_ptr<Gathering> gathering;
    std::unique_ptr<RowExchange> rows;
    std::unique_ptr<Shifts> shifts;
    std::unique_ptr<ShardReduction> shards;
    std::unique_ptr<Messages> messages;
  };
  Collective(std::int32_t size, std::int32_t index, Parts parts)
      : size_(size), index_(index), parts_(std::move(parts)) {}

  [[nodiscard]] std::int32_t size() const { return size_; }
  [[nodiscard]] std::int32_t index() const { return index_; }

  [[nodiscard]] Gathering& gathering() { return *parts_.gathering; }
  [[nodiscard]] RowExchange& rows() { return *parts_.rows; }
  [[nodiscard]] Shifts& shifts() { return *parts_.shifts; }
  [[nodiscard]] ShardReduction& shards() { return *parts_.shards; }
  [[nodiscard]] Messages& messages() { return *parts_.messages; }

  /// Waits for all members.
  void barrier() { static_cast<void>(gathering().sum(0)); }
  /// Waits for one other member, which makes the same call for this one.
  void barrier_with(std::int32_t member, at::Device device);

 private:
  std::int32_t size_;
  std::int32_t index_;
  Parts parts_;
};

/// The bytes of all tensors together.
[[nodiscard]] Bytes bytes_of(std::span<const at::Tensor> tensors);

/// The sum of tensors of one size, added in their order; a new tensor.
[[nodiscard]] at::Tensor add_up(std::span<const at::Tensor> parts);

/// The pairwise sum of tensors of one size; the tensor itself if there is one, else a new one. The
/// first 2^k < n tensors are summed on their own, the rest are summed on their own, and both sums
/// are added. So it has the same bits if neighbours 2^k · i … 2^k · (i + 1) − 1 are summed first,
/// wherever that is.
[[nodiscard]] at::Tensor add_pairwise(std::span<const at::Tensor> parts);

}  // namespace slimpack
