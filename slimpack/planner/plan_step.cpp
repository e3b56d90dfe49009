// Steps: for every choice of recomputation that may pay, search, then deeper where asked to; see
// whether a baseline is shorter; simulate the best as a whole job. Fixed packing is a baseline.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/parallel.h"
#include "slimpack/base/progress.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/planner/baseline_search.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/does_not_fit.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/planner/step_search.h"
#include "slimpack/planner/step_shares.h"
#include "slimpack/sim/lower.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

/// Steps of no more granules are small: exact answers take a moment.
constexpr std::int64_t kMostAutoGranules = 24;
constexpr ExactEffort kAutoEffort{.nodes = 20, .size = 48};
/// Sizes that docs/solver.md finds solvable.
constexpr ExactEffort kMilpEffort{.nodes = 200, .size = 96};
/// Within a time budget: rounds at most, each with so many times the nodes and size of the one
/// before.
constexpr int kMostRounds = 10;
constexpr std::int64_t kMoreNodes = 8;
constexpr std::size_t kMoreSize = 2;
constexpr double kRoundGap = 1e-3;
/// Memory hinders a step that is so many times as long as without a cap.
constexpr double kHindered = 1.1;

/// A replica's packs in the step's ids.
PackPlan in_step_ids(PackPlan packs, const ReplicaShare& share) {
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass)
      for (Slice& slice : pack.slices) slice.sequence = share.sequences[slice.sequence.index()];
  return packs;
}

RatedPlan step_of(const StepProblem& problem, StepSolution solution) {
  const StageTable& table = problem.table;
  RatedPlan step;
  step.plan.lengths = problem.lengths;
  step.plan.layout = table.layout();
  step.plan.replicas.resize(static_cast<std::size_t>(table.replication().replicas));
  step.schedules.resize(step.plan.replicas.size());
  step.speed = table.replication().speed;
  step.plan.recompute = table.recompute();
  step.memory.resize(static_cast<std::size_t>(table.layout().ranks()));
  for (std::size_t u = 0; u < solution.units.size(); ++u) {
    RatedUnit& rated = solution.rated[u];
    for (std::size_t s = 0; s < step.memory.size(); ++s)
      step.memory[s] = std::max(step.memory[s], rated.memory[s]);
    for (std::size_t i = 0; i < rated.packs.size(); ++i) {
      const ReplicaShare& share = solution.units[u].replicas[i];
      step.schedules[share.replica.index()] = own_order(rated.schedule, rated.packs[i]);
      step.plan.replicas[share.replica.index()] = {share.sequences,
                                                   in_step_ids(std::move(rated.packs[i]), share)};
    }
  }
  return step;
}

/// Results that all searches for a step share.
struct Common {
  std::vector<RecomputeChoice> recomputations;  ///< the quickest first
  StepShares shares;
  std::function<void()> progress;
};

/// The question of a step, before a recomputation is chosen. Keeps references.
struct Question {
  const Job& job;
  const SequenceLengths& lengths;
  const Choices& choices;
  const Costs& cost;
  const Common& common;
  int threads = 1;

  [[nodiscard]] StepProblem with(const StageTable& chosen) const {
    return paced({chosen, lengths, choices, job.memory_cap});
  }

  [[nodiscard]] SearchRequest request(const StepProblem& problem, const SearchDepth& depth) const {
    return {.problem = problem,
            .depth = depth,
            .progress = common.progress ? &common.progress : nullptr,
            .shares = &common.shares,
            .threads = threads};
  }
};

/// Progress is told by the calling thread alone.
std::function<void()> on_this_thread(const std::function<void()>& progress) {
  if (!progress) return {};
  return [&progress, caller = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == caller) progress();
  };
}

Common common_of(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                 const Costs& cost, const std::function<void()>& progress) {
  Common common{recompute_choices(job, lengths, choices, cost), {}, on_this_thread(progress)};
  const StageTable quickest = stage_table(cost, job, common.recomputations.front().recompute);
  common.shares = step_shares(paced({quickest, lengths, choices}));
  return common;
}

/// The least memory that a rank needs with a choice of recomputation, and the choice.
using LeastNeed = std::pair<RankNeed, RecomputeByLayer>;

/// The best step of all choices of recomputation.
struct Attempt {
  std::optional<RatedPlan> step;
  std::optional<LeastNeed> least;  ///< of the choices that do not fit
};

/// A search that ran out of time knows no need.
void keep_less(std::optional<LeastNeed>& least, const LeastNeed& other) {
  if (other.first.bytes == Bytes(0)) return;
  if (!least || other.first.bytes < least->first.bytes) least = other;
}

/// Searches the choices one after the other.
class ChoiceSearch {
 public:
  ChoiceSearch(const Question& question, const SearchDepth& depth)
      : question_(question), depth_(depth), choices_(question.common.recomputations) {
    for (const RecomputeChoice& choice : choices_)
      tables_.push_back(stage_table(question.cost, question.job, choice.recompute));
  }

  /// The quickest policy is explored in any case, and the others are cut as was best for it. More
  /// recomputation takes longer, and memory hinders it less: somewhere between is the best. Where
  /// memory makes even that notably longer, each policy for all layers is searched with cuts of its
  /// own. Only where nothing fits are all searched to the end, to find the memory that they would
  /// need. A mixture with the same cuts needs no less than the part of it that keeps less.
  Attempt run() {
    if (never_fits(choices_.front()))
      explore(choices_.front());
    else
      (void)search(choices_.front(), Want::kStep);
    search_others(promising());
    if (hindered())
      for (const RecomputeChoice& choice : choices_)
        if (!choice.mixed && !never_fits(choice)) (void)search(choice, Want::kOwnCuts);
    if (!out_.step)
      for (const RecomputeChoice& choice : choices_)
        if (!choice.mixed || !never_fits(choice)) (void)search(choice, Want::kNeed);
    if (out_.step && !orders_anew())
      out_.step->prediction = predict(*out_.step, question_.cost, {kChannelSlots, false});
    return std::move(out_);
  }

 private:
  enum class Want : std::uint8_t {
    kStep,     ///< a step that is cut as was best for the quickest policy
    kOwnCuts,  ///< a step
    kNeed,     ///< a step, or what is needed
  };

  [[nodiscard]] const StageTable& table_of(const RecomputeChoice& choice) const {
    return tables_[static_cast<std::size_t>(&choice - choices_.data())];
  }

  [[nodiscard]] bool never_fits(const RecomputeChoice& choice) const {
    return slimpack::never_fits(question_.job.memory_cap, question_.lengths,
                                question_.choices.most_merged, table_of(choice));
  }

  /// The choices after the first that may fit, each of which keeps less than those before, as far
  /// as they would be shorter if memory hindered them as little as it can. Where a policy does not
  /// say what a token keeps, all of them: they are few.
  [[nodiscard]] std::vector<const RecomputeChoice*> promising() const {
    std::vector<const RecomputeChoice*> out;
    const bool keeps_by_token = abilities(question_.cost).keeps_by_token;
    double least = std::numeric_limits<double>::infinity();
    for (const RecomputeChoice& choice : choices_) {
      if (keeps_by_token && choice.bytes >= least) continue;
      least = choice.bytes;
      if (&choice == &choices_.front() || never_fits(choice) || is_longer(choice)) continue;
      out.push_back(&choice);
    }
    return out;
  }

  /// Whether memory makes the best step notably longer.
  [[nodiscard]] bool hindered() const {
    return !best_ || static_cast<double>(best_->count()) > kHindered * unlimited_;
  }

  [[nodiscard]] bool is_longer(const RecomputeChoice& choice) const {
    return best_ && expected(choice) >= static_cast<double>(best_->count());
  }

  /// A pattern search: bisects until a choice fits, then moves from the best choice to better ones,
  /// by smaller and smaller strides.
  void search_others(const std::vector<const RecomputeChoice*>& chain) {
    std::size_t best = 0, end = chain.size();
    for (std::size_t low = 0; low < end;) {
      const std::size_t middle = low + (end - low) / 2;
      if (search(*chain[middle], Want::kStep)) {
        best = end = middle;
        break;
      }
      low = middle + 1;
    }
    for (std::size_t stride = (chain.size() + 3) / 4; stride > 0; stride /= 2) {
      const std::size_t from = best;
      for (const std::size_t next : {from + stride, from - std::min(from, stride)})
        if (next < chain.size() && !searched_.contains(chain[next]) &&
            search(*chain[next], Want::kStep))
          best = next;
    }
  }

  void explore(const RecomputeChoice& choice) {
    const StepProblem problem = question_.with(table_of(choice));
    note(explore_step(question_.request(problem, depth_)));
  }

  void note(const StepSearchResult& result) {
    favourites_ = result.favourites;
    unlimited_ = result.unlimited;
  }

  /// The step's makespan if it ran as well as that of the quickest policy does without a cap.
  [[nodiscard]] double expected(const RecomputeChoice& choice) const {
    return unlimited_ * choice.time / choices_.front().time;
  }

  /// Result: the makespan, if it is below the best so far.
  std::optional<Nanos> search(const RecomputeChoice& choice, Want want) {
    searched_.insert(&choice);
    if (is_longer(choice)) return std::nullopt;
    const StepProblem problem = question_.with(table_of(choice));
    SearchRequest request = question_.request(problem, depth_);
    if (&choice != &choices_.front() && (choice.mixed || want == Want::kStep))
      request.candidates = favourites_;
    request.below = best_;
    request.wants_need = want == Want::kNeed && !best_;
    request.much_heavier = want == Want::kNeed;
    StepSearchResult result = search_step(request);
    if (favourites_.empty()) note(result);
    if (result.solution && (!best_ || result.solution->makespan < *best_)) {
      const Nanos makespan = result.solution->makespan;
      RatedPlan step = step_of(problem, std::move(*result.solution));
      if (orders_anew()) return keep_ordered(choice, std::move(step));
      best_ = makespan;
      out_.step = std::move(step);
      return best_;
    }
    if (!result.solution) keep_less(out_.least, {result.least_need, choice.recompute});
    return std::nullopt;
  }

  /// Whether list scheduling is not the last word: it knows times and peaks of E, H and G only
  /// roughly, nothing of context exchanges, and around a ring of stages a regular order may be
  /// better.
  [[nodiscard]] bool orders_anew() const {
    const StageLayout& layout = question_.job.layout;
    return layout.spread_vocabulary || layout.placement.stages_per_rank() > 1 ||
           question_.choices.exchange_context;
  }

  std::optional<Nanos> keep_ordered(const RecomputeChoice& choice, RatedPlan listed) {
    const std::optional<Bytes>& cap = question_.job.memory_cap;
    OrderedStep ordered =
        best_ordered(std::move(listed), question_.cost, cap, question_.choices.exchange_context);
    if (!fits(ordered.step, ordered.need.bytes, cap, question_.cost)) {
      keep_less(out_.least, {ordered.need, choice.recompute});
      return std::nullopt;
    }
    const Nanos makespan = ordered.step.prediction.makespan;
    if (best_ && makespan >= *best_) return std::nullopt;
    best_ = makespan;
    out_.step = std::move(ordered.step);
    return best_;
  }

  const Question& question_;
  SearchDepth depth_;
  const std::vector<RecomputeChoice>& choices_;
  std::vector<StageTable> tables_;     ///< by choice
  std::vector<Candidate> favourites_;  ///< of the quickest policy, whatever the memory cap
  double unlimited_ = 0;               ///< likewise, nanoseconds
  std::set<const RecomputeChoice*> searched_;
  std::optional<Nanos> best_;
  Attempt out_;
};

Attempt attempt(const Question& question, const SearchDepth& depth) {
  return ChoiceSearch(question, depth).run();
}

void keep_shorter(Attempt& best, Attempt other) {
  if (other.least) keep_less(best.least, *other.least);
  if (!other.step) return;
  if (!best.step || other.step->prediction.makespan < best.step->prediction.makespan)
    best = std::move(other);
}

ExactEffort exact_effort(const Question& question) {
  const Choices& choices = question.choices;
  switch (choices.solver) {
    case SolverKind::kAuto:
      return total_granules(question.lengths, choices.granularity) <= kMostAutoGranules
                 ? kAutoEffort
                 : ExactEffort{};
    case SolverKind::kFluid:
      return {};
    case SolverKind::kMilp:
      return kMilpEffort;
  }
  return {};
}

/// Searches further, as the solver and the time budget ask. Each round of the budget looks wider
/// first, which is quick, then solves larger programs.
void look_further(const Question& question, Nanos start, Attempt& best) {
  SearchDepth wider{.effort = question.choices.effort};
  SearchDepth exact{.effort = wider.effort, .exact = exact_effort(question)};
  if (exact.exact.nodes > 0) keep_shorter(best, attempt(question, exact));
  const Nanos budget = question.choices.time_budget;
  if (budget == Nanos(0)) return;
  exact.deadline = wider.deadline = start + budget;
  exact.exact.gap = kRoundGap;
  for (int round = 0; round < kMostRounds && !out_of_time(wider); ++round) {
    ++wider.effort;
    keep_shorter(best, attempt(question, wider));
    if (exact.exact.nodes == 0) continue;
    exact.exact.nodes *= kMoreNodes;
    exact.exact.size *= kMoreSize;
    keep_shorter(best, attempt(question, exact));
  }
}

/// The best of all rounds of the effort asked for.
Attempt rounds(const Question& question) {
  Attempt best;
  for (std::int32_t effort = 1; effort <= question.choices.effort; ++effort)
    keep_shorter(best, attempt(question, {.effort = effort}));
  return best;
}

/// Whatever a baseline does is allowed to us as well. If steps are equally long, the searched one
/// stays.
void consider_baselines(const Question& question, Attempt& best) {
  BaselineQuestion others =
      all_baselines(question.job, question.lengths, question.choices, question.cost);
  if (best.step) others.below = best.step->prediction.makespan;
  others.tick = question.common.progress;
  BaselineSearchResult found = search_baselines(others);
  if (found.leanest) keep_less(best.least, {*found.least_need, found.leanest->plan.recompute});
  if (found.step) best.step = std::move(found.step);
}

/// Whole backwards are tried in any case: splitting is one more choice, never a worse step. The two
/// searches know nothing of each other.
Attempt search_slimpack(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                        const Costs& cost, const std::function<void()>& progress) {
  const Nanos start = monotonic_now();
  const Common common = common_of(job, lengths, choices, cost, progress);
  // List scheduling knows stages around the ranks only.
  if (job.layout.placement.turns_back()) {
    Attempt best;
    consider_baselines({job, lengths, choices, cost, common, machine_threads()}, best);
    return best;
  }
  Costs whole_cost = cost;
  whole_cost.kinds.front().weight_gradient = {};
  const int threads = machine_threads();
  const Question split{job, lengths, choices, cost, common, threads};
  Attempt best;
  if (choices.backward == BackwardKind::kSplit) {
    const Question each[] = {{job, lengths, choices, whole_cost, common, (threads + 1) / 2},
                             {job, lengths, choices, cost, common, (threads + 1) / 2}};
    std::array<Attempt, 2> found;
    for_each_index(found.size(), threads, [&](std::size_t i) { found[i] = rounds(each[i]); });
    best = std::move(found.front());
    keep_shorter(best, std::move(found.back()));
  } else {
    best = rounds({job, lengths, choices, whole_cost, common, threads});
  }
  look_further(split, start, best);
  if (choices.search.baselines) consider_baselines(split, best);
  return best;
}

Attempt make_packed(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                    const Costs& cost) {
  Attempt out;
  out.step = baseline_step(packed_baseline(), job, lengths, choices, cost);
  const RankNeed need = step_need(*out.step, cost);
  if (fits(*out.step, need.bytes, job.memory_cap, cost)) return out;
  out.least = {need, out.step->plan.recompute};
  out.step.reset();
  return out;
}

/// The baseline that the choices name, in its best setting. Ranks exchange attention if the choices
/// allow it.
Attempt make_named(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                   const Costs& cost) {
  require_packable(job.context, job.replicas, lengths);
  BaselineSearchResult found = search_baselines(named_baseline(job, lengths, choices, cost));
  SLIMPACK_CHECK(found.step || found.leanest);
  Attempt out{std::move(found.step), {}};
  if (!out.step) out.least = {*found.least_need, found.leanest->plan.recompute};
  return out;
}

Attempt make_step(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                  const Costs& cost, const std::function<void()>& progress) {
  switch (choices.planner) {
    case PlannerKind::kSlimpack:
      break;
    case PlannerKind::kPacked:
      return make_packed(job, lengths, choices, cost);
    case PlannerKind::kSlimpipe:
    case PlannerKind::kZeppelin:
    case PlannerKind::kContextParallel:
    case PlannerKind::kTokenBalanced:
      return make_named(job, lengths, choices, cost);
  }
  return search_slimpack(job, lengths, choices, cost, progress);
}

void set_lower_bound(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                     const Costs& cost, RatedPlan& step) {
  CutLimits limits{std::max(choices.most_merged, most_merged(step.plan)), choices.granularity,
                   choices.recompute, choices.exchange_context, job.memory_cap};
  if (!step.baseline.empty()) limits.granularity = cut_unit(step.plan, limits.granularity);
  step.lower_bound =
      step_lower_bound(bounding_table(step.plan, job, cost, choices), lengths, limits);
}

}  // namespace

PlanOutcome plan_step(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                      const Costs& known, const std::function<void()>& progress) {
  require_sensible(job, lengths, choices, known);
  Costs cost = known;
  if (choices.backward == BackwardKind::kWhole) cost.kinds.front().weight_gradient = {};
  Attempt best = make_step(job, lengths, choices, cost, progress);
  PlanOutcome outcome;
  if (best.step) {
    outcome.step = std::move(best.step);
    const std::vector<std::string> errors = check_plan(outcome.step->plan, 1);
    SLIMPACK_CHECK(errors.empty(), "{}", errors.front());
    set_lower_bound(job, lengths, choices, cost, *outcome.step);
    outcome.step->lowered = lower(costed_replicas(*outcome.step, cost), outcome.step->schedules);
  } else if (!best.least || !job.memory_cap || best.least->first.bytes <= *job.memory_cap) {
    throw JobDoesNotFit(fmt::format(
        "a rank's offloaded rows do not fit into its {} of pinned host memory ({}); allow another "
        "plan.recompute, or use more ranks or a shorter data.context",
        human_bytes(cost.host.memory), cost.origin.source));
  } else {
    const Refused refused{job, lengths, choices, cost, best.least->second};
    outcome.does_not_fit = refusal(refused, best.least->first);
  }
  return outcome;
}

}  // namespace slimpack
