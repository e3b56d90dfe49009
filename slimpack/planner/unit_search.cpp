#include "slimpack/planner/unit_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/planner/replica_tasks.h"

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

/// The highest rung of the ladder that is no higher than the cap; -1: even the least is.
int highest_rung(Bytes least, Bytes cap) {
  int k = kHighestRung;
  while (k >= 0 && rung(least, k) > cap) --k;
  return k;
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

bool names_candidates(const UnitProblem& problem) {
  return !problem.request.candidates.empty();
}

/// Queues those that have neither been queued nor been looked at.
void enqueue(UnitKnown& known, const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates)
    if (std::ranges::find(known.queue, candidate) == known.queue.end() &&
        std::ranges::find(known.trials, candidate, &UnitTrial::candidate) == known.trials.end())
      known.queue.push_back(candidate);
}

bool in_first_round(const UnitProblem& problem, const UnitKnown& known) {
  return known.turn <= problem.directions.size();
}

/// Queues the candidates of the next direction that has any, once the queue is empty.
void refill(const UnitProblem& problem, UnitKnown& known) {
  const std::optional<Bytes>& cap = problem.step().memory_cap;
  const bool none_fits = cap && known.leanest.score > static_cast<double>(cap->count());
  if (known.queue.empty() && none_fits && !std::exchange(known.coarse, true))
    enqueue(known, coarse_candidates(problem.space));
  while (known.queue.empty() && known.turn < problem.rounds * problem.directions.size()) {
    const SearchDirection direction = problem.directions[known.turn++ % problem.directions.size()];
    if (in_first_round(problem, known))
      enqueue(known, neighbours(known.favourite(), problem.space, direction));
    else
      for (const Favourite* favourite : known.favourites.all())
        enqueue(known, neighbours(favourite->candidate, problem.space, direction, true));
  }
}

/// A schedule has to be shorter than this: the best so far, or the request's limit.
Nanos best_makespan(const UnitProblem& problem, const UnitKnown& known) {
  return std::min(known.best ? known.best->makespan : kNever,
                  problem.request.below.value_or(kNever));
}

/// Keeps a schedule that fits and is the best so far.
void keep(const UnitProblem& problem, UnitKnown& known, const UnitTrial& trial,
          std::optional<ListScheduler::Result> result) {
  if (!result || result->memory.empty()) return;  // not to be shorter than the best
  const std::optional<Bytes>& cap = problem.step().memory_cap;
  const Bytes memory = largest_need(result->memory).bytes;
  if (cap && memory > *cap) return;
  const std::optional<RatedUnit>& best = known.best;
  if (best &&
      std::tuple(result->makespan, memory, pack_count(trial.replicas, &ReplicaPacks::packs)) >=
          std::tuple(best->makespan, largest_need(best->memory).bytes, pack_count(best->packs)))
    return;
  if (!fits_host(problem, trial, result->schedule)) return;
  known.best = RatedUnit{*std::move(result), trial.candidate, {}};
  for (const ReplicaPacks& replica : trial.replicas) known.best->packs.push_back(replica.packs);
}

/// Schedules the trial without a cap and under some, and judges it by that. Result: the average of
/// these, infinity where it is sure not to be the best.
double score(const UnitProblem& problem, UnitKnown& known, UnitTrial& trial) {
  const ListScheduler scheduler = scheduler_of(problem, trial);
  const bool wide = problem.request.depth.effort > 1;
  Favourites& favourites = known.favourites;
  trial.need = largest_need(scheduler.least_memory());
  const Bytes least = trial.need->bytes;
  known.leanest.consider(trial.candidate, static_cast<double>(least.count()));
  const auto consider = [&](Favourite& favourite, Nanos makespan) {
    const auto score = static_cast<double>(makespan.count());
    favourite.consider(trial.candidate, score);
    return score;
  };
  const auto run = [&](Bytes cap, double give_up_above) {
    const Nanos best = best_makespan(problem, known);
    return scheduler.run(uniform(scheduler, cap), policy(trial.candidate, scheduler, Pass::kForward,
                                                         larger(give_up_above, best), best));
  };
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  auto free = scheduler.run({}, policy(trial.candidate, scheduler, Pass::kBackward, kNever,
                                       best_makespan(problem, known)));
  const bool counted = !free->memory.empty();
  const Bytes free_memory = counted ? largest_need(free->memory).bytes : Bytes(0);
  trial.free = consider(favourites.uncapped, free->makespan);
  keep(problem, known, trial, std::move(free));

  // The average of both, or of both and the medium one, which counts as much: split backwards gain
  // most with some memory to spare.
  double limit = 2 * favourites.average.score - trial.free;
  double medium_score = 0;
  if (problem.space.split || wide) {
    auto medium = run(times_factor(least, kMediumCap), kNoLimit);
    medium_score = consider(favourites.medium, medium->makespan);
    if (problem.space.split) limit += 2 * (favourites.average.score - medium_score);
    keep(problem, known, trial, std::move(medium));
  }
  auto tight =
      run(times_factor(least, kTightCap), wide ? std::max(limit, favourites.tight.score) : limit);
  double average = kNoLimit;
  if (tight) {
    const double tight_score = consider(favourites.tight, tight->makespan);
    // The schedule may be above the limit: one that may be the best that fits is not given up.
    if (tight_score <= limit) {
      average = (trial.free + tight_score) / 2;
      if (problem.space.split) average = (average + medium_score) / 2;
      favourites.average.consider(trial.candidate, average);
    }
    keep(problem, known, trial, std::move(tight));
  }
  const std::optional<Bytes>& cap = problem.step().memory_cap;
  if (!cap || !counted || free_memory <= *cap) return average;
  // The highest rung below the cap: what the ladder will find at best, known early.
  if (const int k = highest_rung(least, *cap); k >= 0)
    keep(problem, known, trial, run(rung(least, k), 0));
  return average;
}

/// Scores the trial, then drops its bytes to save memory.
void score_trial(const UnitProblem& problem, UnitKnown& known, UnitTrial& trial) {
  trial.score = score(problem, known, trial);
  for (ReplicaPacks& replica : trial.replicas) replica.bytes = {};
}

/// Whether the trial's bound says that it cannot score better.
bool hopeless(const UnitTrial& trial, const Favourite& favourite) {
  return static_cast<double>(trial.bound.count()) >= favourite.score;
}

/// Leaves coarse candidates out that have more MicroPacks than one that is clearly worse than
/// another with fewer, by score and without a cap; or fewer than one that is worse than another
/// with more.
void narrow(const UnitProblem& problem, UnitKnown& known, const UnitTrial& trial) {
  const Favourites& favourites = known.favourites;
  if (trial.score < kClearlyWorse * favourites.average.score ||
      trial.free < kClearlyWorse * favourites.uncapped.score)
    return;
  CoarseLimits& limits = known.limits;
  const int packs = trial.candidate.cut.fluid.packs;
  const int best_packs = known.favourite().cut.fluid.packs;
  // Coarse MicroPacks may fit by chance and take long. Finer MicroPacks have more memory to spare.
  const bool hindered =
      problem.step().memory_cap && static_cast<double>(best_makespan(problem, known).count()) >
                                       kClearlyWorse * favourites.uncapped.score;
  if (!hindered && packs > best_packs && packs < limits.most) {
    limits.most = packs;
    limits.bound = trial.bound;
  }
  if (packs < best_packs) limits.fewest = std::max(limits.fewest, packs);
}

/// Result: whether the candidate was scored, because its bound left a chance.
bool explore_one(const UnitProblem& problem, UnitKnown& known, const Candidate& candidate) {
  CoarseLimits& limits = known.limits;
  const int packs = candidate.cut.fluid.packs;
  if (packs < problem.fewest_packs) return false;
  if (packs > limits.most || packs < limits.fewest) {
    known.trials.push_back({candidate, {}, limits.bound});
    return false;
  }
  const bool first = known.trials.empty();
  UnitTrial& trial = known.trials.emplace_back(cut_trial(problem, candidate));
  const bool too_long = names_candidates(problem) && trial.bound >= best_makespan(problem, known);
  if (!first && (too_long || hopeless(trial, known.favourites.average))) {
    if (packs > known.favourite().cut.fluid.packs) {
      limits.most = packs;
      limits.bound = trial.bound;
    }
    return false;
  }
  score_trial(problem, known, trial);
  narrow(problem, known, trial);
  return true;
}

/// Result: whether the candidate was scored, because its bound left a chance.
bool refine_one(const UnitProblem& problem, UnitKnown& known, const Candidate& candidate) {
  UnitTrial& trial = known.trials.emplace_back(cut_trial(problem, candidate));
  const Favourites& favourites = known.favourites;
  if (in_first_round(problem, known) ? hopeless(trial, favourites.average)
                                     : std::ranges::all_of(favourites.all(), [&](const auto* each) {
                                         return hopeless(trial, *each);
                                       }))
    return false;
  score_trial(problem, known, trial);
  return true;
}

Candidate taken_from(std::deque<Candidate>& queue) {
  Candidate first = queue.front();
  queue.pop_front();
  return first;
}

/// The caps to schedule a trial under that needs so much, the highest first.
std::vector<Bytes> ladder(const StepProblem& problem, Bytes need) {
  const std::optional<Bytes>& limit = problem.memory_cap;
  std::vector<Bytes> caps;
  if (problem.table.replication().replicas > 1 && limit) {
    for (int k = 0; k < kRungsFromCap; ++k)
      caps.push_back(std::max(need, times_factor(*limit, std::pow(kRungFromCap, -k))));
    return caps;
  }
  for (int k = kHighestRung; k >= 0; --k)
    if (!limit || rung(need, k) <= *limit) caps.push_back(rung(need, k));
  return caps;
}

/// Keeps what a trial needs at least. Result: whether it may fit.
bool may_fit(const UnitProblem& problem, UnitKnown& known, const RankNeed& need) {
  if (!known.least_need || need.bytes < known.least_need->bytes) known.least_need = need;
  const std::optional<Bytes>& cap = problem.step().memory_cap;
  return !cap || need.bytes <= *cap;
}

void climb_ladder(const UnitProblem& problem, UnitKnown& known, UnitTrial& trial) {
  if (trial.bound >= best_makespan(problem, known)) return;
  // Many trials fit nowhere. Those that were scored need no scheduler to say so.
  if (trial.need && !may_fit(problem, known, *trial.need)) return;
  const ListScheduler scheduler = scheduler_of(problem, trial);
  const RankNeed need = largest_need(scheduler.least_memory());
  if (!may_fit(problem, known, need)) return;

  const std::vector<Bytes> caps = ladder(problem.step(), need.bytes);
  for (const Pass first : {Pass::kBackward, Pass::kForward}) {
    Bytes memory(std::numeric_limits<std::int64_t>::max());
    for (const Bytes cap : caps) {
      // A schedule is the same under every cap from its own memory to the one it was made for.
      if (cap >= memory) continue;
      auto result = scheduler.run(uniform(scheduler, cap), policy(trial.candidate, scheduler, first,
                                                                  best_makespan(problem, known)));
      if (result) memory = largest_need(result->memory).bytes;
      keep(problem, known, trial, std::move(result));
    }
  }
}

/// The trials that look best come first.
void sort_for_climbing(const UnitProblem& problem, std::vector<UnitTrial>& trials) {
  const bool by_score = problem.step().table.replication().replicas > 1;
  std::ranges::stable_sort(trials, {}, [&](const UnitTrial& trial) {
    return std::pair(by_score ? trial.score : 0.0, trial.bound);
  });
}

}  // namespace

UnitKnown nothing_known(const UnitProblem& problem) {
  UnitKnown known;
  known.coarse = !names_candidates(problem);
  enqueue(known, problem.first);
  return known;
}

bool explore(const UnitProblem& problem, UnitKnown& known) {
  while (known.turn == 0 && !known.queue.empty()) {
    const bool scored = explore_one(problem, known, taken_from(known.queue));
    refill(problem, known);
    if (scored) return true;
  }
  return false;
}

bool refine(const UnitProblem& problem, UnitKnown& known) {
  while (!known.queue.empty()) {
    const bool scored = refine_one(problem, known, taken_from(known.queue));
    refill(problem, known);
    if (scored) return true;
  }
  return false;
}

void climb(const UnitProblem& problem, UnitKnown& known) {
  SLIMPACK_CHECK(known.explored() && !exhausted(problem, known));
  if (known.climbed == 0) sort_for_climbing(problem, known.trials);
  UnitTrial& trial = known.trials[known.climbed++];
  if (trial.replicas.empty()) {
    CoarseLimits& limits = known.limits;
    const int packs = trial.candidate.cut.fluid.packs;
    const bool beyond = packs > limits.most;
    if (beyond && limits.bound >= best_makespan(problem, known)) return;
    trial = cut_trial(problem, trial.candidate);
    if (beyond) {  // what it shows holds of those with still more
      limits.most = packs;
      limits.bound = trial.bound;
    }
  }
  climb_ladder(problem, known, trial);
  trial.replicas.clear();  // nobody asks for them again
}

bool widen(UnitProblem& problem, UnitKnown& known) {
  if (std::exchange(known.coarse, true)) return false;
  problem.rounds = 1;
  known.limits = {};
  enqueue(known, coarse_candidates(problem.space));
  return true;
}

bool exhausted(const UnitProblem& problem, const UnitKnown& known) {
  if (!known.explored()) return false;
  const bool climbed_enough = problem.step().table.replication().replicas > 1 &&
                              known.climbed >= kMostClimbs &&
                              best_makespan(problem, known) < kNever;
  return known.climbed == known.trials.size() || climbed_enough;
}

void glance(const UnitProblem& problem, UnitKnown& known, Nanos enough) {
  UnitTrial trial = cut_trial(problem, problem.first.front());
  if (trial.bound > enough) return;
  const ListScheduler scheduler = scheduler_of(problem, trial);
  const std::optional<Bytes>& cap = problem.step().memory_cap;
  std::vector<Bytes> caps;
  if (cap) caps = uniform(scheduler, *cap);
  keep(problem, known, trial,
       scheduler.run(caps, policy(trial.candidate, scheduler, Pass::kBackward, enough)));
}

void rate_packs(const UnitProblem& problem, UnitKnown& known, PackPlan packs) {
  UnitTrial trial = trial_of(problem, known.favourite(), {std::move(packs)});
  if (known.best && trial.bound >= known.best->makespan) return;
  const ListScheduler scheduler = scheduler_of(problem, trial);
  keep(problem, known, trial,
       scheduler.run({}, policy(trial.candidate, scheduler, Pass::kBackward)));
  climb_ladder(problem, known, trial);
}

void Favourite::consider(const Candidate& other, double other_score) {
  if (other_score >= score) return;
  score = other_score;
  candidate = other;
}

std::vector<Candidate> favourites(const UnitProblem& problem, const UnitKnown& known) {
  std::vector<Candidate> out;
  const auto add = [&](const Favourite& favourite) {
    if (std::isfinite(favourite.score) && std::ranges::find(out, favourite.candidate) == out.end())
      out.push_back(favourite.candidate);
  };
  for (const Favourite* favourite : known.favourites.all())
    // In the first round schedules under a tight cap are given up against the best that fits.
    if (favourite != &known.favourites.tight || problem.request.depth.effort > 1) add(*favourite);
  add(known.leanest);
  return out;
}

}  // namespace slimpack
