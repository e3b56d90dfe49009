// List scheduler: prepares what depends on the plan alone, and starts the runs under caps.
#include <algorithm>
#include <iterator>
#include <utility>

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
    for (std::size_t j = 0; j < slowest.joint.size(); ++j)
      raise_to(slowest.joint[j], replica.times.joint[j]);
    raise_to(slowest.forward_transfer, replica.times.forward_transfer);
    raise_to(slowest.backward_transfer, replica.times.backward_transfer);
  }
  return slowest;
}

}  // namespace

ListScheduler::ListScheduler(std::span<const ReplicaPacks> replicas, int slots,
                             std::int32_t stages_per_rank)
    : slots_(slots) {
  SLIMPACK_CHECK(!replicas.empty() && slots >= 1);
  set_needs(replicas);
  const std::span<const ReplicaPacks> own = fold(replicas, stages_per_rank);
  if (own.size() > 1) slowest_ = slowest_times(own);
  times_ = slowest_ ? &*slowest_ : &own.front().times;
  set_memory(replicas, own);
}

void ListScheduler::set_needs(std::span<const ReplicaPacks> replicas) {
  for (const ReplicaPacks& replica : replicas) {
    const std::vector<std::int32_t> own = running_needs(replica.packs);
    if (pack_needs_.size() < own.size())
      pack_needs_.resize(own.size(), pack_needs_.empty() ? 0 : pack_needs_.back());
    for (std::size_t b = 0; b < pack_needs_.size(); ++b)
      pack_needs_[b] = std::max(pack_needs_[b], own.empty() ? 0 : own[std::min(b, own.size() - 1)]);
    forwards_ = std::max(forwards_, static_cast<std::int32_t>(replica.packs.forward.size()));
  }
  backwards_ = static_cast<std::int32_t>(pack_needs_.size());
}

std::span<const ReplicaPacks> ListScheduler::fold(std::span<const ReplicaPacks> replicas,
                                                  std::int32_t stages_per_rank) {
  if (stages_per_rank == 1) {
    needed_ = pack_needs_;
    return replicas;
  }
  SLIMPACK_CHECK(slots_ >= 2);
  const std::int32_t ranks = replicas.front().times.stages() / stages_per_rank;
  FoldedOrders orders(batches_of(pack_needs_, forwards_, ranks), ranks, stages_per_rank);
  const std::int32_t round =
      std::max(orders.forward.largest_round(), orders.backward.largest_round());
  FoldedMessages messages{FoldedLinks(orders.forward, Pass::kForward, ranks, slots_),
                          FoldedLinks(orders.backward, Pass::kBackward, ranks, slots_),
                          stages_per_rank * slots_ + round};
  needed_ = folded_needs(pack_needs_, orders, slots_).running;
  folded_.emplace(Folded{std::move(orders), std::move(messages), {}});
  for (const ReplicaPacks& replica : replicas)
    folded_->replicas.push_back(folded(replica, folded_->orders));
  return folded_->replicas;
}

/// The common order's needs, cut to a replica's packs. A replica whose own packs need fewer
/// forwards still follows the common order.
ForwardNeeds ListScheduler::needs_of(const PackPlan& packs) const {
  std::vector<std::int32_t> needed = pack_needs_;
  if (!folded_) needed.resize(packs.backward.size());
  for (std::int32_t& forwards : needed)
    forwards = std::min(forwards, static_cast<std::int32_t>(packs.forward.size()));
  return folded_ ? folded_needs(needed, folded_->orders, slots_) : ForwardNeeds{std::move(needed)};
}

void ListScheduler::set_memory(std::span<const ReplicaPacks> replicas,
                               std::span<const ReplicaPacks> folded) {
  const std::size_t stages = times_->forward.size();
  memory_.resize(stages);
  least_memory_.resize(stages);
  all_memory_.resize(stages);
  first_to_fill_.resize(stages);
  std::vector<Bytes> least;  // [replica · stages + stage]
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    auto guards = memory_guards(folded[r].packs, folded[r].bytes, needs_of(replicas[r].packs),
                                slots_, folded_ ? &folded_->messages : nullptr);
    SLIMPACK_CHECK(guards.size() == stages);
    for (std::size_t s = 0; s < stages; ++s) {
      least.push_back(guards[s].least_cap());
      memory_[s].emplace_back(std::move(guards[s]), folded[r].bytes, StageId(s));
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
  if (!folded_) return folded_run(caps, policy);
  const FoldedOrders& orders = folded_->orders;
  ListPolicy of_folded = policy;
  of_folded.split_from = ListPolicy().split_from;
  if (policy.split_from < backwards_) {
    const FoldedPack first{PackId(policy.split_from), orders.stages_per_rank - 1};
    of_folded.split_from = orders.backward.place(first).value();
  }
  std::optional<Result> result = folded_run(caps, of_folded);
  if (result) result->schedule = unfolded(result->schedule, orders);
  return result;
}

std::optional<ListScheduler::Result> ListScheduler::folded_run(const std::vector<Bytes>& caps,
                                                               const ListPolicy& policy) const {
  SLIMPACK_CHECK(caps.empty() || caps.size() == memory_.size());
  for (std::size_t s = 0; s < caps.size(); ++s)
    if (least_memory_[s] > caps[s]) return std::nullopt;
  if (caps.empty() || all_memory_.front().size() == 1) return run_with(all_memory_, caps, policy);
  // The first run counts only the replica that needs most memory on each stage. If its orders keep
  // the caps for all replicas, the other replicas change nothing.
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
  const FoldedMessages* const messages = folded_ ? &folded_->messages : nullptr;
  const auto forwards = static_cast<std::int32_t>(times_->forward.front().size());
  auto result = ListRun({*times_, needed_, forwards, slots_, memory, messages}, caps, policy).run();
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
  Schedule own{{}, common.placement};
  for (const auto& actions : common.ranks) {
    auto& list = own.ranks.emplace_back();
    list.reserve(packs.forward.size() + packs.backward.size());
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(list),
                 [&](const Action& a) { return a.pack.index() < packs.of(a.pass).size(); });
  }
  return own;
}

}  // namespace slimpack
