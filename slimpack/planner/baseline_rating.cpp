#include "slimpack/planner/baseline_rating.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "slimpack/base/threads.h"
#include "slimpack/planner/baseline_orders.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// Schedules of one replica with no more packs are tried under every cap that makes a difference.
/// With more packs there are more such caps, and each schedule takes longer.
constexpr std::size_t kFewPacks = 32;
/// Replicas of steps with more sequences are asked on all threads; with fewer these would take
/// longer to start.
constexpr std::size_t kFewSequences = 8192;

/// Makes it no higher than the value.
template <class Value>
void lower(std::atomic<Value>& most, Value value) {
  for (Value known = most; value < known && !most.compare_exchange_weak(known, value);) {
  }
}

/// Bytes that the longest sequence keeps on the fullest rank.
Bytes kept(const BaselineRequest& request, const StageTable& table) {
  const Tokens longest = *std::ranges::max_element(request.step.lengths);
  Bytes most;
  for (std::int32_t r = 0; r < table.layout().ranks(); ++r)
    most = std::max(most, table.sequence_bytes(r, longest));
  return most;
}

std::vector<StageTable> tables_of(const BaselineRequest& request, bool mixed) {
  std::vector<StageTable> tables;
  for (const RecomputeChoice& choice : request.recomputations)
    if (mixed || !choice.mixed)
      tables.push_back(stage_table(request.step.cost, request.step.job, choice.recompute));
  return tables;
}

/// Without those that take longer than another one and keep as much.
std::vector<StageTable> leaner_and_leaner(const BaselineRequest& request,
                                          const std::vector<StageTable>& every) {
  std::vector<StageTable> tables;
  Bytes least;
  for (const StageTable& table : every) {
    const Bytes bytes = kept(request, table);
    if (!tables.empty() && bytes >= least) continue;
    least = bytes;
    tables.push_back(table);
  }
  return tables;
}

/// The work of the busiest stage, which takes less time to find than order_bound and mostly says as
/// much.
Nanos busiest(const TaskTimes& times) {
  Nanos most;
  for (std::size_t s = 0; s < times.forward.size(); ++s) {
    Nanos work;
    for (const Nanos time : times.forward[s]) work += time;
    for (std::size_t b = 0; b < times.backward[s].size(); ++b)
      work += times.input_gradient.empty()
                  ? times.backward[s][b]
                  : std::min(times.backward[s][b],
                             times.input_gradient[s][b] + times.weight_gradient[s][b]);
    most = std::max(most, work);
  }
  return most;
}

}  // namespace

BaselineRating::BaselineRating(const BaselineRequest& request)
    : request_(request),
      cheapest_(
          cheapest_table(request.step.cost, request.step.job, request.step.choices.recompute)),
      every_uniform_(tables_of(request, false)),
      every_mixed_(tables_of(request, true)),
      uniform_(leaner_and_leaner(request, every_uniform_)),
      mixed_(leaner_and_leaner(request, every_mixed_)),
      best_(request.below) {
  quickest_first_ = cheapest_ == every_mixed_.front();
}

void BaselineRating::rate(const Baseline& baseline, const Tuning& tuning,
                          const BaselinePlan& made) {
  const bool exchanges = request_.exchanges(baseline);
  if (!exchanges && !order_has_chance(made)) return;
  if (made.discipline == Discipline::kCyclic)
    rate_cyclic(baseline, tuning, made);
  else
    rate_fixed(baseline, tuning, made, Attention::kOwn);
  if (exchanges) rate_fixed(baseline, tuning, made, Attention::kExchanged);
}

bool BaselineRating::order_has_chance(const BaselinePlan& made) const {
  if (!best_ || made.discipline == Discipline::kCyclic) return true;
  const auto& replicas = made.plan.replicas;
  return !first_of(0, replicas.size(), [&](std::size_t r) {
    // Replicas that share all packs have the same times.
    if (r > 0 && request_.step.job.speed.empty() && replicas[r].packs == replicas[r - 1].packs)
      return false;
    return !order_has_chance(fixed_order(made, r), made.plan, r, cheapest_);
  });
}

bool BaselineRating::replica_has_chance(const Baseline& baseline, const BaselinePlan& made) const {
  if (!order_has_chance(made)) return false;
  if (!best_ || made.discipline == Discipline::kCyclic) return true;
  const std::vector<StageTable>& tables = every_table(baseline);
  const RatedPlan step = ordered_step(made, request_.step.job.memory_cap, tables.front());
  return std::ranges::any_of(tables,
                             [&](const StageTable& table) { return !hopeless(step, table, 0); });
}

std::optional<std::size_t> BaselineRating::first_of(
    std::size_t begin, std::size_t count, const std::function<bool(std::size_t)>& of) const {
  const std::size_t none = begin + count;
  std::atomic<std::size_t> first = none;
  const int threads = request_.step.lengths.size() > kFewSequences ? processors() : 1;
  for_each_index(count, threads, [&](std::size_t i) {
    if (begin + i < first && of(begin + i)) lower(first, begin + i);
  });
  return first < none ? std::optional<std::size_t>(first) : std::nullopt;
}

bool BaselineRating::order_has_chance(const Schedule& order, const StepPlan& plan,
                                      std::size_t replica, const StageTable& table) const {
  const TaskTimes times = table.times(plan.replicas[replica].packs, ReplicaId(replica));
  return has_chance(busiest(times)) && has_chance(order_bound(order, times));
}

BaselineRating::Rated BaselineRating::simulated(RatedPlan step, Attention attention) const {
  Rated out{std::move(step), {}, {}};
  if (attention == Attention::kExchanged) put_exchanges_in(out.step, request_.step.cost);
  out.replicas = costed_replicas(out.step, request_.step.cost);
  out.step.prediction = simulate(out.replicas, out.step.schedules, {kChannelSlots, false});
  return out;
}

void BaselineRating::measure(Rated& rated) const {
  if (request_.step.job.memory_cap)
    rated.need = largest_need(rank_needs(rated.step, rated.replicas));
}

bool BaselineRating::fits(const Rated& rated) const {
  return slimpack::fits(rated.step, rated.need.bytes, request_.step.job.memory_cap,
                        request_.step.cost);
}

/// Finds a recomputation that keeps the cap by bisection, then sees whether another one is quicker.
/// Where a step is known, that needs no bisection: only what keeps the cap is of use.
void BaselineRating::rate_fixed(const Baseline& baseline, const Tuning& tuning,
                                const BaselinePlan& made, Attention attention) {
  const std::vector<StageTable>& tables = baseline.traits.mixes ? mixed_ : uniform_;
  RatedPlan step = ordered_step(made, request_.step.job.memory_cap, tables.front());
  if (attention == Attention::kOwn && hopeless(step, tables.front())) {
    rate_every_recomputation(baseline, tuning, std::move(step), attention);
    return;
  }
  const auto with = [&](std::size_t i) {
    step.plan.recompute = tables[i].recompute();
    Rated out = simulated(step, attention);
    if (i > 0) measure(out);
    return out;
  };
  Rated found = with(0);
  if (quickest_first_ && !has_chance(found.step.prediction.makespan)) return;
  measure(found);
  const bool quickest_fits = quickest_first_ && fits(found);
  if (!fits(found) && tables.size() > 1) {
    std::size_t too_large = 0;
    std::size_t last = tables.size() - 1;
    found = with(last);
    while (fits(found) && last - too_large > 1) {
      const std::size_t middle = too_large + (last - too_large) / 2;
      Rated other = with(middle);
      if (fits(other)) {
        found = std::move(other);
        last = middle;
      } else {
        too_large = middle;
      }
    }
  }
  keep(baseline, tuning, std::move(found));
  if (!quickest_fits) rate_every_recomputation(baseline, tuning, std::move(step), attention);
}

bool BaselineRating::hopeless(const RatedPlan& step, const StageTable& table,
                              std::size_t replica) const {
  if (!best_) return false;
  const Schedule& order = step.schedules[replica];
  // Bytes take longer to count than times.
  if (!order_has_chance(order, step.plan, replica, table)) return true;
  const std::optional<Bytes>& cap = request_.step.job.memory_cap;
  if (!cap) return false;
  const ReplicaPacks packs = replica_bytes(step, table, ReplicaId(replica));
  return largest_need(schedule_memory(packs.packs, order, packs.bytes)).bytes > *cap;
}

bool BaselineRating::hopeless(const RatedPlan& step, const StageTable& table) {
  const std::size_t count = step.plan.replicas.size();
  asked_first_ %= count;
  if (hopeless(step, table, asked_first_)) return true;
  const auto other = first_of(asked_first_ + 1, count - 1,
                              [&](std::size_t r) { return hopeless(step, table, r % count); });
  asked_first_ = other.value_or(asked_first_) % count;
  return other.has_value();
}

/// Where MicroPacks cost more by themselves than their tokens do, a recomputation with more work
/// may be quicker. Neither more memory nor more recomputations to choose from lead to a longer
/// step.
void BaselineRating::rate_every_recomputation(const Baseline& baseline, const Tuning& tuning,
                                              RatedPlan step, Attention attention) {
  for (const StageTable& table : every_table(baseline)) {
    if (attention == Attention::kOwn && hopeless(step, table)) continue;
    step.plan.recompute = table.recompute();
    Rated other = simulated(step, attention);
    measure(other);
    keep(baseline, tuning, std::move(other));
  }
}

/// Gives up at the first replica that says that the step is of no use.
std::optional<RatedPlan> BaselineRating::cyclic_step(const BaselinePlan& made,
                                                     const StageTable& table) const {
  RatedPlan step = unordered_step(made, table);
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
    order_next(step, made, request_.step.job.memory_cap, table, kFewPacks);
    if (hopeless(step, table, r)) return std::nullopt;
  }
  put_vocabulary_in(step);
  return step;
}

/// Under another recomputation another order may be the best.
void BaselineRating::rate_cyclic(const Baseline& baseline, const Tuning& tuning,
                                 const BaselinePlan& made) {
  for (const StageTable& table : every_table(baseline)) {
    std::optional<RatedPlan> step = cyclic_step(made, table);
    if (!step) continue;
    Rated found = simulated(std::move(*step));
    measure(found);
    keep(baseline, tuning, std::move(found));
  }
}

void BaselineRating::keep(const Baseline& baseline, const Tuning& tuning, Rated rated) {
  if (!fits(rated) &&
      (best_ || (result_.least_need && rated.need.bytes >= result_.least_need->bytes)))
    return;
  if (!has_chance(rated.step.prediction.makespan)) return;
  rated.step.baseline = baseline.name;
  result_.tuning = tuning;
  if (fits(rated)) {
    best_ = rated.step.prediction.makespan;
    if (shortest_ != nullptr) lower(*shortest_, *best_);
    result_.step = std::move(rated.step);
    result_.leanest.reset();
    result_.least_need.reset();
  } else {
    result_.least_need = rated.need;
    result_.leanest = std::move(rated.step);
  }
}

}  // namespace slimpack
