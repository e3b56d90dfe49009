#include "slimpack/packflow/ranks/thread_collective.h"

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

using Tensors = ThreadRounds::Tensors;
using Given = ThreadRounds::Given;

/// The bytes of a tensor that leave each member of a ring that gathers or sums it.
Bytes ring_bytes(const at::Tensor& whole, std::int32_t members) {
  return Bytes(static_cast<std::int64_t>(whole.nbytes()) / members * (members - 1));
}

class ThreadGathering final : public Gathering {
 public:
  explicit ThreadGathering(RoundsMember rounds) : rounds_(std::move(rounds)) {}

  Tensors all_gather(at::Tensor own) override { return rounds_.exchange(std::move(own)); }

  Tensors gather(const at::Tensor& own) override {
    const bool first = rounds_.index() == 0;
    Tensors all = all_gather(own);
    for (at::Tensor& tensor : all) tensor = first ? tensor.clone() : at::Tensor();
    rounds_.barrier();
    return first ? all : Tensors{};
  }

  double sum(double value) override {
    double total = 0;
    for (const Given& given : rounds_.exchange(Tensors{}, value)) total += given.value;
    return total;
  }

 private:
  RoundsMember rounds_;
};

/// Members read each other's memory. They wait until all have read, so that the bytes of a rank do
/// not depend on the speed of the others.
class ThreadRowExchange final : public RowExchange {
 public:
  ThreadRowExchange(RoundsMember rounds, RoundsMember pairwise)
      : rounds_(std::move(rounds)), pairwise_(std::move(pairwise)) {}

  at::Tensor all_gather_rows(const at::Tensor& own, const MemberRows& rows) override {
    at::Tensor all = empty_rows(own, rows.rows());
    {
      const auto bytes = Bytes(static_cast<std::int64_t>(own.nbytes()));
      const Tensors parts = rounds_.exchange(own, bytes * (rounds_.size() - 1));
      for (std::int32_t m = 0; m < rounds_.size(); ++m)
        all.index_copy_(0, rows.of(m), parts[static_cast<std::size_t>(m)]);
    }
    rounds_.barrier();
    return all;
  }

  at::Tensor reduce_scatter_rows(const at::Tensor& part, const MemberRows& rows) override {
    const at::Tensor own = rows.of(rounds_.index());
    at::Tensor sum;
    {
      const Tensors parts = rounds_.exchange(part, ring_bytes(part, rounds_.size()));
      sum = parts[0].index_select(0, own);
      for (std::size_t m = 1; m < parts.size(); ++m) sum.add_(parts[m].index_select(0, own));
    }
    rounds_.barrier();
    return sum;
  }

  Tensors all_to_all(Tensors given, const std::vector<std::int64_t>& counts) override {
    Tensors taken;
    for (Given& member : pairwise_.exchange(std::move(given))) {
      const auto own = static_cast<std::size_t>(pairwise_.index());
      SLIMPACK_CHECK(member.tensors[own].size(0) == counts[taken.size()]);
      charge_to(member.tensors[own], tracked_rank());
      taken.push_back(std::move(member.tensors[own]));
    }
    return taken;
  }

 private:
  RoundsMember rounds_;
  RoundsMember pairwise_;  ///< each gives something else to each
};

class ThreadShifts final : public Shifts {
 public:
  ThreadShifts(ThreadCircles& circles, std::int32_t index, RankClock& clock)
      : circles_(circles), index_(index), clock_(clock) {}

  void start_shift(Tensors tensors, const Zone& circle, std::int32_t step,
                   const std::vector<std::int64_t>& rows) override {
    Own& own = of(circle);
    const std::int32_t from = own.rounds.member_before(step);
    const Bytes bytes = bytes_of(tensors);
    own.shifting.push_back({own.rounds.give(std::move(tensors), 0, step, bytes), step,
                            rows[static_cast<std::size_t>(from)]});
  }

  Tensors finish_shift(const Zone& circle) override {
    Own& own = of(circle);
    SLIMPACK_CHECK(!own.shifting.empty());
    const Shift shift = own.shifting.front();
    own.shifting.pop_front();
    own.rounds.await(shift.number);
    Tensors result = own.rounds.take_shifted(shift.number, shift.step);
    for (const at::Tensor& tensor : result) SLIMPACK_CHECK(tensor.size(0) == shift.rows);
    return result;
  }

 private:
  /// An unfinished shift.
  struct Shift {
    std::uint64_t number;  ///< of its round
    std::int32_t step;
    std::int64_t rows;
  };
  /// The member's end of a circle.
  struct Own {
    RoundsMember rounds;
    std::deque<Shift> shifting;
  };

  Own& of(const Zone& circle) {
    SLIMPACK_CHECK(circle.has(index_));
    auto it = own_.find(circle);
    if (it == own_.end()) {
      RoundsMember rounds(circles_.of(circle), index_ - circle.first, clock_);
      it = own_.emplace(circle, Own{std::move(rounds), {}}).first;
    }
    return it->second;
  }

  ThreadCircles& circles_;
  std::int32_t index_;
  RankClock& clock_;
  std::map<Zone, Own> own_;
};

class ThreadShardReduction final : public ShardReduction {
 public:
  explicit ThreadShardReduction(RoundsMember rounds) : rounds_(std::move(rounds)) {}

  void start_reduce_scatter(at::Tensor flat_N) override {
    const Bytes bytes = ring_bytes(flat_N, rounds_.size());
    reducing_.push_back(rounds_.give({std::move(flat_N)}, 0, 0, bytes));
  }

  void await_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    rounds_.await_given(reducing_.front());
  }

  void finish_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    rounds_.await(reducing_.front());
    const std::vector<Given> all = rounds_.take(reducing_.front());
    reducing_.pop_front();
    const Shard own =
        shard(all[static_cast<std::size_t>(rounds_.index())].tensors[0], rounds_.index());
    if (rounds_.size() == 1 || own.size() == 0) return;
    Tensors parts_S;
    for (const Given& given : all) parts_S.push_back(own.of(given.tensors[0]));
    parts_S[static_cast<std::size_t>(rounds_.index())].copy_(add_pairwise(parts_S));
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    if (rounds_.size() == 1) return;
    const Tensors all = rounds_.exchange(flat_N, ring_bytes(flat_N, rounds_.size()));
    for (std::int32_t m = 0; m < rounds_.size(); ++m) {
      if (m == rounds_.index()) continue;
      const Shard of_member = shard(flat_N, m);
      of_member.of(flat_N).copy_(of_member.of(all[static_cast<std::size_t>(m)]));
    }
  }

  void all_reduce(at::Tensor& tensor) override {
    if (rounds_.size() == 1) return;
    const Bytes bytes = 2 * ring_bytes(tensor, rounds_.size());  // summed, and handed out
    const at::Tensor sum = add_pairwise(rounds_.exchange(tensor, bytes));
    rounds_.barrier();  // nobody may write before all have read
    tensor.copy_(sum);
  }

 private:
  [[nodiscard]] Shard shard(const at::Tensor& flat_N, std::int32_t member) const {
    return {flat_N.numel(), rounds_.size(), member};
  }

  RoundsMember rounds_;
  std::deque<std::uint64_t> reducing_;  ///< rounds of unfinished reductions
};

/// The links between members of a group that have the given zone, in virtual time.
std::shared_ptr<GroupLinks> group_links(const LinkUse& use, const RankGroup& group,
                                        const Zone& members) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t m = members.first; m < members.end(); ++m) ranks.push_back(group.rank(m));
  return std::make_shared<GroupLinks>(use, std::move(ranks));
}

std::vector<GroupMessage> messages_of(std::span<const Given> given) {
  std::vector<GroupMessage> messages;
  for (const Given& of_member : given) messages.push_back({of_member.time, of_member.leaving});
  return messages;
}

ThreadRounds::Arrivals shift_arrivals(const std::optional<LinkUse>& use, const RankGroup& group,
                                      const Zone& circle) {
  if (!use) return {};
  return
      [links = group_links(*use, group, circle)](std::span<const Given> given, std::int32_t step) {
        return links->shift(messages_of(given), step);
      };
}

/// When all have what all gave, as GroupLinks::collective or GroupLinks::reduction says.
ThreadRounds::Arrivals common_arrivals(const std::optional<LinkUse>& use, const RankGroup& group,
                                       Nanos (GroupLinks::*when)(std::span<const GroupMessage>)) {
  if (!use) return {};
  return [links = group_links(*use, group, {0, group.size}), when](std::span<const Given> given,
                                                                   std::int32_t /*step*/) {
    return std::vector<Nanos>(given.size(), std::invoke(when, *links, messages_of(given)));
  };
}

ThreadRounds::Arrivals pairwise_arrivals(const std::optional<LinkUse>& use,
                                         const RankGroup& group) {
  if (!use) return {};
  return [links = group_links(*use, group, {0, group.size})](std::span<const Given> given,
                                                             std::int32_t /*step*/) {
    std::vector<GroupLinks::ToEach> sent;
    for (const Given& of_member : given) {
      sent.push_back({of_member.time, {}});
      for (const at::Tensor& tensor : of_member.tensors)
        sent.back().bytes.push_back(bytes_of(std::span(&tensor, 1)));
    }
    return links->all_to_all(sent);
  };
}

}  // namespace

ThreadRounds& ThreadCircles::of(const Zone& circle) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<ThreadRounds>& rounds = rounds_[circle];
  if (!rounds)
    rounds = std::make_unique<ThreadRounds>(failure_, circle.size,
                                            shift_arrivals(links_, group_, circle));
  return *rounds;
}

ThreadCollective::ThreadCollective(SharedFailure& failure, const RankGroup& group,
                                   const std::optional<LinkUse>& links)
    : gathering_(failure, group.size),
      rows_(failure, group.size, common_arrivals(links, group, &GroupLinks::collective)),
      pairwise_(failure, group.size, pairwise_arrivals(links, group)),
      shards_(failure, group.size, common_arrivals(links, group, &GroupLinks::reduction)),
      circles_(failure, group, links),
      messages_(failure, group) {}

Collective ThreadCollective::member(std::int32_t index, RankClock& clock, SenderLink* link) {
  SLIMPACK_CHECK(index >= 0 && index < gathering_.size());
  const auto end = [&](ThreadRounds& rounds) { return RoundsMember(rounds, index, clock); };
  return {gathering_.size(),
          index,
          {std::make_unique<ThreadGathering>(end(gathering_)),
           std::make_unique<ThreadRowExchange>(end(rows_), end(pairwise_)),
           std::make_unique<ThreadShifts>(circles_, index, clock),
           std::make_unique<ThreadShardReduction>(end(shards_)),
           std::make_unique<ThreadMessagesEnd>(messages_, index, clock, link)}};
}

}  // namespace slimpack
