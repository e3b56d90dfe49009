// List scheduler: prepares what depends on the plan alone, and starts the runs under caps.
#include <algorithm>
#include <iterator>

#include "slimpack/base/error.h"
#include "slimpack/schedule/list_run.h"
#include "slimpack/schedule/list_scheduler.h"

namespace slimpack {
namespace {

/// Raises each pack's time to `times`, those of another replica.
void raise_to(std::vector<Nanos>& slowest, const std::vector<Nanos>& times) {
  if (slowest.size() < times.size()) slowest.resize(times.size());
  for (std::size_t p = 0; p < times.size(); ++p) slowest[p] = std::max(slowest[p], times[p]);
}

TaskTimes slowest_times(std::span<const ReplicaPacks> replicas) {
  TaskTimes slowest = replicas.front().times;
  for (const ReplicaPacks& replica : replicas.subspan(1)) {
    for (std::size_t s = 0; s < slowest.forward.size(); ++s) {
      raise_to(slowest.forward[s], replica.times.forward[s]);
      raise_to(slowest.backward[s], replica.times.backward[s]);
    }
    for (std::size_t s = 0; s < slowest.weight_gradient.size(); ++s) {
      raise_to(slowest.input_gradient[s], replica.times.input_gradient[s]);
      raise_to(slowest.weight_gradient[s], replica.times.weight_gradient[s]);
    }
    raise_to(slowest.forward_transfer, replica.times.forward_transfer);
    raise_to(slowest.backward_transfer, replica.times.backward_transfer);
  }
  return slowest;
}

/// The common order's needs, cut to the replica's packs. A replica whose own packs need fewer
/// forwards still follows the common order.
std::vector<std::int32_t> needs_of(const std::vector<std::int32_t>& common, const PackPlan& packs) {
  std::vector<std::int32_t> needed(
      common.begin(), common.begin() + static_cast<std::ptrdiff_t>(packs.backward.size()));
  for (std::int32_t& forwards : needed)
    forwards = std::min(forwards, static_cast<std::int32_t>(packs.forward.size()));
  return needed;
}

}  // namespace

ListScheduler::ListScheduler(std::span<const ReplicaPacks> replicas, int slots,
                             std::int32_t stages_per_rank)
    : slots_(slots) {
  SLIMPACK_CHECK(!replicas.empty() && slots >= 1);
  set_needs(replicas);
  replicas = fold(replicas, stages_per_rank);
  if (replicas.size() > 1) slowest_ = slowest_times(replicas);
  times_ = slowest_ ? &*slowest_ : &replicas.front().times;
  set_memory(replicas);
}

void ListScheduler::set_needs(std::span<const ReplicaPacks> replicas) {
  for (const ReplicaPacks& replica : replicas) {
    const std::vector<std::int32_t> own = running_needs(replica.packs);
    if (needed_.size() < own.size())
      needed_.resize(own.size(), needed_.empty() ? 0 : needed_.back());
    for (std::size_t b = 0; b < needed_.size(); ++b)
      needed_[b] = std::max(needed_[b], own.empty() ? 0 : own[std::min(b, own.size() - 1)]);
    forwards_ = std::max(forwards_, static_cast<std::int32_t>(replica.packs.forward.size()));
  }
  backwards_ = static_cast<std::int32_t>(needed_.size());
}

std::span<const ReplicaPacks> ListScheduler::fold(std::span<const ReplicaPacks> replicas,
                                                  std::int32_t stages_per_rank) {
  if (stages_per_rank == 1) return replicas;
  SLIMPACK_CHECK(slots_ >= 2);
  const std::int32_t ranks = replicas.front().times.stages() / stages_per_rank;
  orders_.emplace(forwards_, backwards_, ranks, stages_per_rank);
  const std::int32_t round =
      std::max(orders_->forward.largest_round(), orders_->backward.largest_round());
  messages_.emplace(FoldedMessages{FoldedLinks(orders_->forward, Pass::kForward, ranks, slots_),
                                   FoldedLinks(orders_->backward, Pass::kBackward, ranks, slots_),
                                   arriving_needs(needed_, *orders_),
                                   stages_per_rank * slots_ + round});
  for (const ReplicaPacks& replica : replicas) folded_.push_back(folded(replica, *orders_));
  needed_ = folded_needs(needed_, *orders_);
  forwards_ *= stages_per_rank;
  return folded_;
}

void ListScheduler::set_memory(std::span<const ReplicaPacks> replicas) {
  const std::size_t stages = times_->forward.size();
  memory_.resize(stages);
  least_memory_.resize(stages);
  all_memory_.resize(stages);
  first_to_fill_.resize(stages);
  std::vector<Bytes> least;  // [replica · stages + stage]
  for (const ReplicaPacks& replica : replicas) {
    const std::vector<std::int32_t> needed = needs_of(needed_, replica.packs);
    auto guards = memory_guards(replica.packs, replica.bytes, needed, slots_,
                                messages_ ? &*messages_ : nullptr);
    const std::vector<std::int32_t> fitting =
        orders_ ? fitting_needs(needed, *orders_, slots_) : needed;
    SLIMPACK_CHECK(guards.size() == stages);
    for (std::size_t s = 0; s < stages; ++s) {
      least.push_back(guards[s].least_cap(fitting));
      memory_[s].emplace_back(std::move(guards[s]), replica.bytes, StageId(s));
    }
  }
  for (std::size_t s = 0; s < stages; ++s) {
    std::size_t most = 0;
    const auto need = [&](std::size_t r) { return least[r * stages + s]; };
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      all_memory_[s].push_back(&memory_[s][r]);
      if (need(r) > need(most)) most = r;
    }
    least_memory_[s] = need(most);
    first_to_fill_[s] = {&memory_[s][most]};
  }
}

std::optional<ListScheduler::Result> ListScheduler::run(const std::vector<Bytes>& caps,
                                                        const ListPolicy& policy) const {
  if (!orders_) return folded_run(caps, policy);
  ListPolicy of_folded = policy;
  of_folded.split_from = ListPolicy().split_from;
  if (policy.split_from < backwards_) {
    const FoldedPack first{PackId(policy.split_from), orders_->stages_per_rank - 1};
    of_folded.split_from = orders_->backward.place(first).value();
  }
  std::optional<Result> result = folded_run(caps, of_folded);
  if (result) result->schedule = unfolded(result->schedule, *orders_);
  return result;
}

std::optional<ListScheduler::Result> ListScheduler::folded_run(const std::vector<Bytes>& caps,
                                                               const ListPolicy& policy) const {
  SLIMPACK_CHECK(caps.empty() || caps.size() == memory_.size());
  for (std::size_t s = 0; s < caps.size(); ++s)
    if (least_memory_[s] > caps[s]) return std::nullopt;
  if (caps.empty() || all_memory_.front().size() == 1) return run_with(all_memory_, caps, policy);
  // Where the caps hold for all replicas in what they let the fullest do, they change nothing.
  auto result = run_with(first_to_fill_, caps, policy);
  if (!result || result->memory.empty()) return result;
  result->memory = memory_of(result->schedule);
  for (std::size_t s = 0; s < caps.size(); ++s)
    if (result->memory[s] > caps[s]) return run_with(all_memory_, caps, policy);
  return result;
}

std::optional<ListScheduler::Result> ListScheduler::run_with(
    const std::vector<std::vector<const StageMemory*>>& memory, const std::vector<Bytes>& caps,
    const ListPolicy& policy) const {
  const FoldedMessages* const messages = messages_ ? &*messages_ : nullptr;
  auto result =
      ListRun({*times_, needed_, forwards_, slots_, memory, messages}, caps, policy).run();
  if (!result) return result;
  if (result->makespan >= policy.count_memory_below)
    result->memory.clear();
  else if (caps.empty())
    result->memory = memory_of(result->schedule);
  return result;
}

std::vector<Bytes> ListScheduler::memory_of(const Schedule& common) const {
  std::vector<Bytes> highest(memory_.size());
  for (std::size_t s = 0; s < memory_.size(); ++s)
    for (const StageMemory& replica : memory_[s])
      highest[s] = std::max(highest[s], replica.highest_of(common.ranks[s]));
  return highest;
}

Schedule own_order(const Schedule& common, const PackPlan& packs) {
  Schedule own{{}, common.stages_per_rank};
  for (const auto& actions : common.ranks) {
    auto& list = own.ranks.emplace_back();
    list.reserve(packs.forward.size() + packs.backward.size());
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(list), [&](const Action& a) {
      return a.pack.index() < (a.pass == Pass::kForward ? packs.forward : packs.backward).size();
    });
  }
  return own;
}

}  // namespace slimpack
