#include "slimpack/packflow/thread_collective.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

class ThreadCollective::Member final : public Collective {
 public:
  Member(ThreadCollective& group, std::int32_t index, RankClock& clock)
      : group_(group), index_(index), clock_(clock) {}

  [[nodiscard]] std::int32_t size() const override { return group_.size_; }
  [[nodiscard]] std::int32_t index() const override { return index_; }

  std::vector<at::Tensor> all_gather(at::Tensor own) override {
    std::vector<at::Tensor> result;
    for (Tensors& given : exchange({std::move(own)}).given) result.push_back(std::move(given[0]));
    return result;
  }

  std::vector<at::Tensor> all_to_all(std::vector<at::Tensor> parts) override {
    SLIMPACK_CHECK(parts.size() == static_cast<std::size_t>(size()));
    std::vector<at::Tensor> result;
    for (Tensors& given : exchange(std::move(parts)).given)
      result.push_back(std::move(given[static_cast<std::size_t>(index_)]));
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
    for (const double v : exchange({}, value).values) total += v;
    return total;
  }

  void start_reduce_scatter(at::Tensor flat_N) override {
    reducing_.push_back(given_);
    give({std::move(flat_N)}, 0);
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
    const at::Tensor& own_N = round.given[static_cast<std::size_t>(index_)][0];
    const Shard shard(own_N.numel(), size(), index_);
    at::Tensor sum = shard.of(own_N);
    if (size() == 1 || shard.size() == 0) return;
    // In member order; the first addend is added to where it stands.
    if (index_ != 0) {
      const at::Tensor own = sum.clone();
      sum.copy_(shard.of(round.given[0][0]));
      for (std::int32_t m = 1; m < size(); ++m)
        sum.add_(m == index_ ? own : shard.of(round.given[static_cast<std::size_t>(m)][0]));
      return;
    }
    for (std::int32_t m = 1; m < size(); ++m)
      sum.add_(shard.of(round.given[static_cast<std::size_t>(m)][0]));
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
  void give(Tensors tensors, double value) {
    group_.give(given_++, index_, std::move(tensors), value, clock_.now());
  }
  Round exchange(Tensors tensors, double value = 0) {
    const std::uint64_t number = given_;
    give(std::move(tensors), value);
    group_.await(number, clock_);
    return group_.take(number);
  }

  ThreadCollective& group_;
  std::int32_t index_;
  RankClock& clock_;
  std::uint64_t given_ = 0;
  std::deque<std::uint64_t> reducing_;  ///< rounds of reductions that are not finished
};

std::unique_ptr<Collective> ThreadCollective::member(std::int32_t index, RankClock& clock) {
  SLIMPACK_CHECK(index >= 0 && index < size_);
  return std::make_unique<Member>(*this, index, clock);
}

ThreadCollective::Round& ThreadCollective::round(std::uint64_t number) {
  while (number - first_ >= rounds_.size()) {
    Round& next = rounds_.emplace_back();
    next.given.resize(static_cast<std::size_t>(size_));
    next.values.resize(static_cast<std::size_t>(size_));
  }
  return rounds_[number - first_];
}

void ThreadCollective::give(std::uint64_t number, std::int32_t member, Tensors tensors,
                            double value, Nanos time) {
  const auto lock = room_.lock();
  Round& r = round(number);
  r.given[static_cast<std::size_t>(member)] = std::move(tensors);
  r.values[static_cast<std::size_t>(member)] = value;
  r.complete = std::max(r.complete, time);
  if (++r.gave == size_) room_.notify();
}

void ThreadCollective::await(std::uint64_t number, RankClock& clock) {
  auto lock = room_.lock();
  room_.wait(lock, clock, [&] { return round(number).gave == size_; });
  clock.wait_until(round(number).complete);
}

ThreadCollective::Round ThreadCollective::take(std::uint64_t number) {
  const auto lock = room_.lock();
  Round result = round(number);
  ++round(number).took;
  while (!rounds_.empty() && rounds_.front().took == size_) {
    rounds_.pop_front();
    ++first_;
  }
  return result;
}

}  // namespace slimpack
