#include "slimpack/packflow/ranks/thread_collective.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/ranks/member_sum.h"

namespace slimpack {

class ThreadCollective::Member final : public Collective {
 public:
  Member(ThreadCollective& group, std::int32_t index, RankClock& clock)
      : group_(group), index_(index), clock_(clock) {}

  [[nodiscard]] std::int32_t size() const override { return group_.size_; }
  [[nodiscard]] std::int32_t index() const override { return index_; }

  std::vector<at::Tensor> all_gather(at::Tensor own) override {
    Tensors result;
    for (Given& given : exchange({std::move(own)}).given)
      result.push_back(std::move(given.tensors[0]));
    return result;
  }

  std::vector<at::Tensor> gather(const at::Tensor& own) override {
    Tensors all = all_gather(own);
    for (at::Tensor& tensor : all) tensor = index_ == 0 ? tensor.clone() : at::Tensor();
    meet();
    return index_ == 0 ? all : Tensors{};
  }

  // Members read each other's memory, and meet again when all have read: so a rank's bytes do not
  // depend on how long others take.
  at::Tensor all_gather_rows(const at::Tensor& own,
                             const std::vector<at::Tensor>& rows_of) override {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    sizes[0] = 0;
    for (const at::Tensor& rows : rows_of) sizes[0] += rows.numel();
    at::Tensor all = at::empty(sizes, own.options());
    {
      const Tensors parts = all_gather(own);
      for (std::size_t m = 0; m < parts.size(); ++m) all.index_copy_(0, rows_of[m], parts[m]);
    }
    meet();
    return all;
  }

  at::Tensor reduce_scatter_rows(const at::Tensor& part,
                                 const std::vector<at::Tensor>& rows_of) override {
    const at::Tensor& rows = rows_of[static_cast<std::size_t>(index_)];
    at::Tensor sum;
    {
      const Tensors parts = all_gather(part);
      sum = parts[0].index_select(0, rows);
      for (std::size_t m = 1; m < parts.size(); ++m) sum.add_(parts[m].index_select(0, rows));
    }
    meet();
    return sum;
  }

  void start_shift(std::vector<at::Tensor> tensors, std::int32_t step, std::int64_t rows) override {
    const std::uint64_t number = give({std::move(tensors)}, step);
    shifting_.push_back({number, group_.member_at(index_ - step), rows});
  }

  std::vector<at::Tensor> finish_shift() override {
    SLIMPACK_CHECK(!shifting_.empty());
    const Shift shift = shifting_.front();
    shifting_.pop_front();
    group_.await(shift.number, clock_);
    Tensors result = group_.take_from(shift.number, shift.giver);
    for (const at::Tensor& tensor : result) SLIMPACK_CHECK(tensor.size(0) == shift.rows);
    return result;
  }

  void all_reduce(at::Tensor& tensor) override {
    if (size() == 1) return;
    const std::vector<at::Tensor> all = all_gather(tensor);
    at::Tensor sum = all[0].clone();
    for (std::size_t m = 1; m < all.size(); ++m) sum.add_(all[m]);
    meet();  // before anybody writes to what others read
    tensor.copy_(sum);
  }

  double sum(double value) override {
    double total = 0;
    for (const Given& given : exchange({}, value).given) total += given.value;
    return total;
  }

  void start_reduce_scatter(at::Tensor flat_N) override {
    reducing_.push_back(give({{std::move(flat_N)}}));
  }

  void await_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    group_.await(reducing_.front(), clock_);
  }

  void finish_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    group_.await(reducing_.front(), clock_);
    const Round round = group_.take(reducing_.front());
    reducing_.pop_front();
    const at::Tensor& own_N = round.given[static_cast<std::size_t>(index_)].tensors[0];
    const Shard shard(own_N.numel(), size(), index_);
    if (size() == 1 || shard.size() == 0) return;
    Tensors parts_S;
    for (const Given& given : round.given) parts_S.push_back(shard.of(given.tensors[0]));
    add_up_members(parts_S, index_);
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    if (size() == 1) return;
    const std::vector<at::Tensor> all = all_gather(flat_N);
    for (std::int32_t m = 0; m < size(); ++m) {
      const Shard shard(flat_N.numel(), size(), m);
      if (m != index_) shard.of(flat_N).copy_(shard.of(all[static_cast<std::size_t>(m)]));
    }
  }

 private:
  std::uint64_t give(Given given, std::int32_t step = 0) {
    group_.give(given_, index_, std::move(given), clock_.now(), step);
    return given_++;
  }
  Round exchange(Tensors tensors, double value = 0) {
    const std::uint64_t number = give({std::move(tensors), value});
    group_.await(number, clock_);
    return group_.take(number);
  }

  /// A shift that is not finished.
  struct Shift {
    std::uint64_t number;  ///< of its round
    std::int32_t giver;
    std::int64_t rows;
  };

  ThreadCollective& group_;
  std::int32_t index_;
  RankClock& clock_;
  std::uint64_t given_ = 0;
  std::deque<Shift> shifting_;
  std::deque<std::uint64_t> reducing_;  ///< rounds of reductions that are not finished
};

std::unique_ptr<Collective> ThreadCollective::member(std::int32_t index, RankClock& clock) {
  SLIMPACK_CHECK(index >= 0 && index < size_);
  return std::make_unique<Member>(*this, index, clock);
}

ThreadCollective::Round& ThreadCollective::round(std::uint64_t number) {
  while (number - first_ >= rounds_.size())
    rounds_.emplace_back().given.resize(static_cast<std::size_t>(size_));
  return rounds_[number - first_];
}

void ThreadCollective::give(std::uint64_t number, std::int32_t member, Given given, Nanos time,
                            std::int32_t step) {
  given.rank = tracked_rank();
  const auto lock = room_.lock();
  Round& r = round(number);
  r.given[static_cast<std::size_t>(member)] = std::move(given);
  r.complete = std::max(r.complete, time);
  if (++r.gave < size_) return;
  if (step != 0) charge_receivers(r, step);
  room_.notify();
}

// Everything leaves its giver before anything arrives: no member is seen to hold both.
void ThreadCollective::charge_receivers(const Round& round, std::int32_t step) const {
  for (const Given& given : round.given)
    for (const at::Tensor& tensor : given.tensors) charge_to(tensor, kMaxTrackedRanks);
  for (std::int32_t m = 0; m < size_; ++m)
    for (const at::Tensor& tensor : round.given[static_cast<std::size_t>(m)].tensors)
      charge_to(tensor, round.given[static_cast<std::size_t>(member_at(m + step))].rank);
}

void ThreadCollective::await(std::uint64_t number, RankClock& clock) {
  auto lock = room_.lock();
  room_.wait(lock, clock, [&] { return round(number).gave == size_; });
  clock.wait_until(round(number).complete);
}

ThreadCollective::Round ThreadCollective::take(std::uint64_t number) {
  const auto lock = room_.lock();
  Round result = round(number);
  took(number);
  for (const Given& given : result.given)
    for (const at::Tensor& tensor : given.tensors) keep_for_queue(tensor);
  return result;
}

ThreadCollective::Tensors ThreadCollective::take_from(std::uint64_t number, std::int32_t member) {
  const auto lock = room_.lock();
  Tensors result = std::move(round(number).given[static_cast<std::size_t>(member)].tensors);
  took(number);
  for (const at::Tensor& tensor : result) keep_for_queue(tensor);
  return result;
}

void ThreadCollective::took(std::uint64_t number) {
  ++round(number).took;
  while (!rounds_.empty() && rounds_.front().took == size_) {
    rounds_.pop_front();
    ++first_;
  }
}

}  // namespace slimpack
