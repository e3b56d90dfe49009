#include "slimpack/planner/unit_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/unit_tasks.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

Bytes times_factor(Bytes bytes, double factor) {
  return Bytes(static_cast<std::int64_t>(static_cast<double>(bytes.count()) * factor));
}

/// One cap for every rank.
std::vector<Bytes> uniform(const ListScheduler& scheduler, Bytes cap) {
  return std::vector<Bytes>(scheduler.least_memory().size(), cap);
}

constexpr Nanos kNever(std::numeric_limits<std::int64_t>::max());

/// Memory caps for schedules of a candidate, as multiples of its own least memory. Candidates are
/// judged under the tight one and without a cap, and under the medium one where backwards may be
/// split and in later rounds.
constexpr double kTightCap = 1.1;
constexpr double kMediumCap = 2.0;
/// The ladder: 1, 1.04, 1.04², … about 2, then on in steps of 1.2 to about 9. More memory still
/// helps where backwards are split, and where sequences are short of many in flight.
constexpr double kRung = 1.04;
constexpr int kRungs = 18;
constexpr double kHighRung = 1.2;
constexpr int kHighestRung = kRungs + 8;
/// With several replicas: so many candidates are on the ladder, and its rungs.
constexpr std::size_t kMostClimbs = 6;
constexpr int kRungsFromCap = 6;
constexpr double kRungFromCap = 1.2;
/// A coarse candidate that scores so much more than the best is clearly worse.
constexpr double kClearlyWorse = 1.01;

/// The k-th cap of the ladder, 0 = the least.
Bytes rung(Bytes least, int k) {
  return times_factor(
      least, std::pow(kRung, std::min(k, kRungs)) * std::pow(kHighRung, std::max(0, k - kRungs)));
}

ListPolicy policy(const Candidate& candidate, const ListScheduler& scheduler, Pass first,
                  Nanos give_up_above = kNever, Nanos count_memory_below = kNever) {
  const std::int32_t split = candidate.split_per_stage * scheduler.ranks();
  return {first, std::max(0, scheduler.backwards() - split), give_up_above, count_memory_below};
}

/// The larger limit.
Nanos larger(double limit, Nanos other) {
  if (limit >= static_cast<double>(kNever.count())) return kNever;
  return std::max(Nanos(static_cast<std::int64_t>(std::ceil(limit))), other);
}

/// In all replicas together.
template <class Replicas, class PacksOf = std::identity>
std::size_t pack_count(const Replicas& replicas, PacksOf packs_of = {}) {
  std::size_t count = 0;
  for (const auto& replica : replicas)
    for (const Pass pass : kWholePasses) count += std::invoke(packs_of, replica).of(pass).size();
  return count;
}

}  // namespace

UnitSearch::UnitSearch(const SearchRequest& request, const Unit& unit,
                       const std::vector<Candidate>& hints)
    : request_(request),
      problem_(request.problem),
      unit_(unit),
      space_(candidate_space(unit, problem_.table.layout().ranks(), problem_.choices.granularity,
                             problem_.choices.search)),
      directions_(free_directions(problem_.choices.search)),
      cost_(unit_cost(problem_, problem_.pacing[unit.replicas.front().replica.index()].rank)),
      last_phase_(request.candidates.empty()
                      ? directions_.size() * static_cast<std::size_t>(request.depth.effort)
                      : 0) {
  space_.ring = problem_.table.layout().placement.stages_per_rank() > 1;
  space_.split = problem_.table.splits_backward();
  space_.paired = problem_.paired();
  enqueue(hints);
  if (!request.candidates.empty()) {
    enqueue(request.candidates);
    return;
  }
  std::vector<Candidate> candidates = coarse_candidates(space_);
  if (!hints.empty()) {
    // Candidates near the hint are looked at first.
    const auto away = [&](const Candidate& c) {
      return std::abs(
          std::log2(static_cast<double>(c.cut.fluid.packs) / hints.front().cut.fluid.packs));
    };
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return away(a) < away(b); });
  }
  enqueue(candidates);
}

void UnitSearch::enqueue(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    const auto same = [&](const Candidate& other) { return other == candidate; };
    if (std::any_of(queue_.begin(), queue_.end(), same) ||
        std::any_of(seen_.begin(), seen_.end(), [&](const Trial& t) { return same(t.candidate); }))
      continue;
    queue_.push_back(candidate);
  }
}

void UnitSearch::next_phase() {
  const bool none_fits =
      problem_.memory_cap && leanest_.score > static_cast<double>(problem_.memory_cap->count());
  if (!request_.candidates.empty() && none_fits && !std::exchange(tried_coarse_, true)) {
    enqueue(coarse_candidates(space_));
    if (!queue_.empty()) return;
  }
  if (++phase_ > last_phase_) {
    const bool by_score = problem_.table.replication().replicas > 1;
    std::ranges::stable_sort(seen_, {}, [&](const Trial& trial) {
      return std::pair(by_score ? trial.score : 0.0, trial.bound);
    });
    return;
  }
  const SearchDirection direction = directions_[(phase_ - 1) % directions_.size()];
  if (in_first_round())
    enqueue(neighbours(favourite(), space_, direction));
  else
    for (const Favourite* favourite : favourites_.all())
      enqueue(neighbours(favourite->candidate, space_, direction, true));
}

std::vector<Candidate> UnitSearch::favourites() const {
  std::vector<Candidate> out;
  const auto add = [&](const Favourite& favourite) {
    if (std::isfinite(favourite.score) &&
        std::find(out.begin(), out.end(), favourite.candidate) == out.end())
      out.push_back(favourite.candidate);
  };
  for (const Favourite* favourite : favourites_.all())
    // In the first round schedules under a tight cap are given up against the best that fits.
    if (favourite != &favourites_.tight || request_.depth.effort > 1) add(*favourite);
  add(leanest_);
  return out;
}

void UnitSearch::glance(Nanos enough) {
  Trial trial = trial_of(queue_.front(), cut_unit(unit_, cost_, queue_.front().cut));
  if (trial.bound > enough) return;
  add_bytes(trial);
  const ListScheduler scheduler = scheduler_of(trial);
  std::vector<Bytes> caps;
  if (problem_.memory_cap) caps = uniform(scheduler, *problem_.memory_cap);
  keep(trial, scheduler.run(caps, policy(trial.candidate, scheduler, Pass::kBackward, enough)));
}

void UnitSearch::advance() {
  SLIMPACK_CHECK(!exhausted());
  if (explored()) {
    Trial& trial = seen_[climbed_++];
    climb_ladder(trial);
    trial.replicas.clear();  // nobody asks for them again
    return;
  }
  for (bool scored = false; !scored && !explored();) {
    const Candidate candidate = queue_.front();
    queue_.pop_front();
    scored = explore(candidate);
    while (queue_.empty() && !explored()) next_phase();
  }
}

void UnitSearch::consider_extra(PackPlan packs) {
  Trial trial = trial_of(favourite(), {std::move(packs)});
  if (best_ && trial.bound >= best_->makespan) return;
  add_bytes(trial);
  const ListScheduler scheduler = scheduler_of(trial);
  keep(trial, scheduler.run({}, policy(trial.candidate, scheduler, Pass::kBackward)));
  climb_ladder(trial);
}

UnitSearch::Trial UnitSearch::trial_of(const Candidate& candidate,
                                       std::vector<PackPlan> packs) const {
  Trial trial{candidate, {}, {}};
  std::vector<TaskTimes> times = unit_times(problem_, unit_, packs);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    ReplicaPacks& replica = trial.replicas.emplace_back();
    replica.packs = std::move(packs[i]);
    replica.times = std::move(times[i]);
    trial.bound = std::max(trial.bound, actions_lower_bound(replica.packs, replica.times,
                                                            problem_.table.layout().placement));
  }
  return trial;
}

ListScheduler UnitSearch::scheduler_of(const Trial& trial) const {
  return ListScheduler(trial.replicas, kChannelSlots,
                       problem_.table.layout().placement.stages_per_rank());
}

void UnitSearch::add_bytes(Trial& trial) const {
  add_unit_bytes(problem_, unit_, trial.replicas);
}

void UnitSearch::Favourite::consider(const Candidate& other, double other_score) {
  if (other_score >= score) return;
  score = other_score;
  candidate = other;
}

void UnitSearch::narrow(const Trial& trial) {
  if (phase_ != 0 || trial.score < kClearlyWorse * favourites_.average.score ||
      trial.free < kClearlyWorse * favourites_.uncapped.score)
    return;
  const int packs = trial.candidate.cut.fluid.packs;
  // Coarse MicroPacks may fit by chance and take long. Finer MicroPacks have more memory to spare.
  const bool hindered = problem_.memory_cap && static_cast<double>(best_makespan().count()) >
                                                   kClearlyWorse * favourites_.uncapped.score;
  if (!hindered && packs > favourite().cut.fluid.packs && packs < too_many_packs_) {
    too_many_packs_ = packs;
    too_many_bound_ = trial.bound;
  }
  if (packs < favourite().cut.fluid.packs) too_few_packs_ = std::max(too_few_packs_, packs);
}

bool UnitSearch::explore(const Candidate& candidate) {
  if (phase_ == 0 &&
      (candidate.cut.fluid.packs > too_many_packs_ || candidate.cut.fluid.packs < too_few_packs_)) {
    seen_.push_back({candidate, {}, too_many_bound_});
    return false;
  }
  Trial& trial = seen_.emplace_back(trial_of(candidate, cut_unit(unit_, cost_, candidate.cut)));
  if (!request_.candidates.empty() && seen_.size() > 1 && trial.bound >= best_makespan())
    return false;
  const auto hopeless = [&](const Favourite* favourite) {
    return static_cast<double>(trial.bound.count()) >= favourite->score;
  };
  if (in_first_round() ? hopeless(&favourites_.average)
                       : std::ranges::all_of(favourites_.all(), hopeless)) {
    if (phase_ == 0 && candidate.cut.fluid.packs > favourite().cut.fluid.packs) {
      too_many_packs_ = candidate.cut.fluid.packs;
      too_many_bound_ = trial.bound;
    }
    return false;
  }
  add_bytes(trial);
  trial.score = score(trial, scheduler_of(trial));
  narrow(trial);
  for (ReplicaPacks& replica : trial.replicas) replica.bytes = {};
  return true;
}

double UnitSearch::score(Trial& trial, const ListScheduler& scheduler) {
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  leanest_.consider(trial.candidate, static_cast<double>(least.count()));
  const auto consider = [&](Favourite& favourite, Nanos makespan) {
    const auto score = static_cast<double>(makespan.count());
    favourite.consider(trial.candidate, score);
    return score;
  };
  const auto run = [&](const std::vector<Bytes>& by_rank, Pass first, double give_up_above) {
    const ListPolicy how = policy(trial.candidate, scheduler, first,
                                  larger(give_up_above, best_makespan()), best_makespan());
    return scheduler.run(by_rank, how);
  };
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  auto free = scheduler.run(
      {}, policy(trial.candidate, scheduler, Pass::kBackward, kNever, best_makespan()));
  const bool counted = !free->memory.empty();
  const Bytes free_memory = counted ? largest_need(free->memory).bytes : Bytes(0);
  const double free_score = trial.free = consider(favourites_.uncapped, free->makespan);
  keep(trial, std::move(free));

  // The average of both, or of both and the medium one, which counts as much: split backwards gain
  // most with some memory to spare.
  double limit = 2 * favourites_.average.score - free_score;
  double medium_score = 0;
  if (space_.split || request_.depth.effort > 1) {
    auto medium =
        run(uniform(scheduler, times_factor(least, kMediumCap)), Pass::kForward, kNoLimit);
    medium_score = consider(favourites_.medium, medium->makespan);
    if (space_.split) limit += 2 * (favourites_.average.score - medium_score);
    keep(trial, std::move(medium));
  }
  auto tight = run(uniform(scheduler, times_factor(least, kTightCap)), Pass::kForward,
                   request_.depth.effort > 1 ? std::max(limit, favourites_.tight.score) : limit);
  double average = kNoLimit;
  if (tight) {
    const double tight_score = consider(favourites_.tight, tight->makespan);
    // The schedule may be above the limit: one that may be the best that fits is not given up.
    if (tight_score <= limit) {
      average = (free_score + tight_score) / 2;
      if (space_.split) average = (average + medium_score) / 2;
      favourites_.average.consider(trial.candidate, average);
    }
    keep(trial, std::move(tight));
  }
  const std::optional<Bytes>& cap = problem_.memory_cap;
  if (!cap || !counted || free_memory <= *cap) return average;
  // The highest rung below the cap: what the ladder will find at best, known early.
  int k = kHighestRung;
  while (k >= 0 && rung(least, k) > *cap) --k;
  if (k >= 0) keep(trial, run(uniform(scheduler, rung(least, k)), Pass::kForward, 0));
  return average;
}

std::vector<Bytes> UnitSearch::ladder(Bytes need) const {
  const std::optional<Bytes>& limit = problem_.memory_cap;
  std::vector<Bytes> caps;
  if (problem_.table.replication().replicas > 1 && limit) {
    for (int k = 0; k < kRungsFromCap; ++k)
      caps.push_back(std::max(need, times_factor(*limit, std::pow(kRungFromCap, -k))));
    return caps;
  }
  for (int k = kHighestRung; k >= 0; --k)
    if (!limit || rung(need, k) <= *limit) caps.push_back(rung(need, k));
  return caps;
}

bool UnitSearch::climbed_enough() const {
  return problem_.table.replication().replicas > 1 && climbed_ >= kMostClimbs &&
         best_makespan() < kNever;
}

void UnitSearch::climb_ladder(Trial& trial) {
  if (trial.replicas.empty())
    trial = trial_of(trial.candidate, cut_unit(unit_, cost_, trial.candidate.cut));
  if (trial.bound >= best_makespan()) return;
  add_bytes(trial);
  const ListScheduler scheduler = scheduler_of(trial);
  const RankNeed need = largest_need(scheduler.least_memory());
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.memory_cap && need.bytes > *problem_.memory_cap) return;

  const std::vector<Bytes> caps = ladder(need.bytes);
  for (const Pass first : {Pass::kBackward, Pass::kForward}) {
    Bytes memory(std::numeric_limits<std::int64_t>::max());
    for (const Bytes cap : caps) {
      // A schedule is the same under every cap from its own memory to the one it was made for.
      if (cap >= memory) continue;
      auto result = scheduler.run(uniform(scheduler, cap),
                                  policy(trial.candidate, scheduler, first, best_makespan()));
      if (result) memory = largest_need(result->memory).bytes;
      keep(trial, std::move(result));
    }
  }
}

Nanos UnitSearch::best_makespan() const {
  return std::min(best_ ? best_->makespan : kNever, request_.below.value_or(kNever));
}

void UnitSearch::keep(const Trial& trial, std::optional<ListScheduler::Result> result) {
  if (!result || result->memory.empty()) return;  // not to be shorter than the best
  const Bytes memory = largest_need(result->memory).bytes;
  if (problem_.memory_cap && memory > *problem_.memory_cap) return;
  if (best_ &&
      std::tuple(result->makespan, memory, pack_count(trial.replicas, &ReplicaPacks::packs)) >=
          std::tuple(best_->makespan, largest_need(best_->memory).bytes, pack_count(best_->packs)))
    return;
  if (!fits_host(trial, result->schedule)) return;
  best_ = RatedUnit{*std::move(result), trial.candidate, {}};
  for (const ReplicaPacks& replica : trial.replicas) best_->packs.push_back(replica.packs);
}

bool UnitSearch::fits_host(const Trial& trial, const Schedule& order) const {
  const StageTable& table = problem_.table;
  if (table.host_memory() == Bytes(0) || !first_offloading(table.recompute())) return true;
  for (std::size_t i = 0; i < trial.replicas.size(); ++i) {
    const PackPlan& packs = trial.replicas[i].packs;
    if (host_need(table, packs, unit_.replicas[i].lengths, own_order(order, packs),
                  unit_.replicas[i].replica) > table.host_memory())
      return false;
  }
  return true;
}

}  // namespace slimpack
