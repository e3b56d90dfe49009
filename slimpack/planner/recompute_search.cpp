#include "slimpack/planner/recompute_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "slimpack/base/threads.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/recut.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/step_search.h"

namespace slimpack {
namespace {

/// Memory hinders a step that is so many times as long as without a cap.
constexpr double kHindered = 1.1;

/// Recutting may take this share of the step that it shortens: planning should stay well below a
/// tenth. Steps of minutes get no more than a tenth of a second. An action takes so many
/// nanoseconds to cost, to schedule and to simulate. A round of more effort takes several times as
/// long as the one before.
constexpr double kRecutShare = 0.03;
constexpr double kMostRecutNanos = 3e7;
constexpr double kActionNanos = 1300;
constexpr double kRecutPower = 4;

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

/// Searches the choices one after the other.
class RecomputeSearch {
 public:
  RecomputeSearch(const StepQuestion& question, const SearchBasis& basis, const SearchDepth& depth,
                  int threads, std::optional<Nanos> below)
      : question_(question),
        basis_(basis),
        depth_(depth),
        threads_(threads),
        choices_(basis.recomputations),
        best_(below) {
    for (const RecomputeChoice& choice : choices_)
      tables_.push_back(stage_table(question.cost, question.job, choice.recompute));
  }

  BestStep run() {
    if (never_fits(choices_.front()))
      explore(choices_.front());
    else
      (void)search(choices_.front(), Want::kStep);
    search_others(promising(), Want::kStep);
    if (hindered())
      for (const RecomputeChoice& choice : choices_)
        if (!choice.mixed && !never_fits(choice)) (void)search(choice, Want::kOwnCuts);
    if (!best_)
      for (const RecomputeChoice& choice : choices_)
        if (!choice.mixed || !never_fits(choice)) (void)search(choice, Want::kNeed);
    finish_found();
    if (basis_.shares.fitted && best_ && !out_of_time(depth_)) search_fitted_shares();
    return std::move(out_);
  }

 private:
  enum class Want : std::uint8_t {
    kStep,     ///< a step that is cut as was best for the quickest policy
    kOwnCuts,  ///< a step
    kNeed,     ///< a step, or what is needed
    kFitted,   ///< a step that is shared out as share_fit.h does
  };

  /// A step that list scheduling has the last word on.
  struct Found {
    const RecomputeChoice* choice;
    StepSolution solution;
  };

  void finish_found() {
    for (std::optional<Found>* found : {&found_, &unmixed_}) {
      if (*found) finish(*std::move(*found));
      found->reset();
    }
  }

  /// Keeps the found step with freed cuts, if it is shorter than what is known. With one replica
  /// the cap only filters candidates, so that more memory never gives a longer step; freed cuts
  /// would depend on it.
  void finish(Found found) {
    const StepProblem problem = problem_of(*found.choice);
    const SearchOptions& kept = question_.choices.search;
    const bool free = !kept.packs && !kept.taper && !kept.short_first && !problem.paired();
    if (free && question_.job.replicas > 1)
      recut(request_for(problem), recut_actions(found.solution.makespan), found.solution);
    RatedPlan step = step_of(problem, std::move(found.solution));
    if (orders_anew()) {
      (void)keep_ordered(*found.choice, std::move(step));
      return;
    }
    step.prediction.makespan = predicted_makespan(step, table_of(*found.choice));
    if (!out_.step || step.prediction.makespan < out_.step->prediction.makespan)
      out_.step = std::move(step);
  }

  /// Actions that recutting may schedule.
  [[nodiscard]] std::int64_t recut_actions(Nanos makespan) const {
    const double rounds = std::pow(depth_.effort, kRecutPower);
    const double nanos = kRecutShare * static_cast<double>(makespan.count());
    return std::llround(rounds * std::min(nanos, kMostRecutNanos) / kActionNanos);
  }

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
  void search_others(const std::vector<const RecomputeChoice*>& chain, Want want) {
    std::size_t best = 0, end = chain.size();
    for (std::size_t low = 0; low < end;) {
      const std::size_t middle = low + (end - low) / 2;
      if (search(*chain[middle], want)) {
        best = end = middle;
        break;
      }
      low = middle + 1;
    }
    for (std::size_t stride = (chain.size() + 3) / 4; stride > 0; stride /= 2) {
      const std::size_t from = best;
      for (const std::size_t next : {from + stride, from - std::min(from, stride)})
        if (next < chain.size() && !searched_.contains(chain[next]) && search(*chain[next], want))
          best = next;
    }
  }

  [[nodiscard]] StepProblem problem_of(const RecomputeChoice& choice) const {
    return step_problem(table_of(choice), question_.lengths, question_.choices,
                        question_.job.memory_cap);
  }

  [[nodiscard]] SearchRequest request_for(const StepProblem& problem) const {
    return {.problem = problem, .depth = depth_, .progress = basis_.progress, .threads = threads_};
  }

  void explore(const RecomputeChoice& choice) {
    const StepProblem problem = problem_of(choice);
    note(explore_step(request_for(problem), basis_.shares));
  }

  void note(const StepSearchResult& result) {
    favourites_ = result.favourites;
    unlimited_ = result.unlimited;
  }

  /// The step's makespan if it ran as well as that of the quickest policy does without a cap.
  [[nodiscard]] double expected(const RecomputeChoice& choice) const {
    return unlimited_ * choice.time / choices_.front().time;
  }

  /// This comes last, so that it changes nothing about what the search looks at before. Searches
  /// compare the ends of last actions. Reductions of gradients come after these, so the predictions
  /// decide (finish, keep_ordered): the step never gets longer.
  void search_fitted_shares() {
    searched_.clear();
    unlimited_ *= highest_load(*basis_.shares.fitted) / lightest_load(basis_.shares);
    if (!never_fits(choices_.front())) (void)search(choices_.front(), Want::kFitted);
    search_others(promising(), Want::kFitted);
    finish_found();
  }

  /// Result: the makespan, if it is below the best so far.
  std::optional<Nanos> search(const RecomputeChoice& choice, Want want) {
    searched_.insert(&choice);
    if (is_longer(choice)) return std::nullopt;
    const StepProblem problem = problem_of(choice);
    SearchRequest request = request_for(problem);
    if (&choice != &choices_.front() && (choice.mixed || want == Want::kStep))
      request.candidates = favourites_;
    request.below = best_;
    request.wants_need = want == Want::kNeed && !best_;
    request.much_heavier = want == Want::kNeed;
    StepSearchResult result = want == Want::kFitted ? search_fitted(request, basis_.shares)
                                                    : search_step(request, basis_.shares);
    if (favourites_.empty()) note(result);
    if (result.solution && (!best_ || result.solution->makespan < *best_)) {
      if (!list_scheduled())
        return keep_ordered(choice, step_of(problem, std::move(*result.solution)));
      if (orders_anew()) (void)keep_ordered(choice, step_of(problem, *result.solution));
      best_ = result.solution->makespan;
      keep_found({&choice, *std::move(result.solution)});
      return best_;
    }
    if (!result.solution) out_.keep_less({result.least_need, choice.recompute});
    return std::nullopt;
  }

  /// A mixture may gain less from freed cuts than the policy that was best before it.
  void keep_found(Found found) {
    if (!found.choice->mixed)
      unmixed_.reset();
    else if (found_ && !found_->choice->mixed)
      unmixed_ = std::move(found_);
    found_ = std::move(found);
  }

  /// Whether list schedules are orders by themselves. Then the search follows their makespans.
  [[nodiscard]] bool list_scheduled() const {
    const StageLayout& layout = question_.job.layout;
    return !layout.spread_vocabulary && layout.placement.stages_per_rank() == 1;
  }

  /// Whether list scheduling is not the last word: it knows times and peaks of E, H and G only
  /// roughly, nothing of context exchanges, and around a ring of stages a regular order may be
  /// better.
  [[nodiscard]] bool orders_anew() const {
    return !list_scheduled() || question_.choices.exchange_context;
  }

  std::optional<Nanos> keep_ordered(const RecomputeChoice& choice, RatedPlan listed) {
    const std::optional<Bytes>& cap = question_.job.memory_cap;
    OrderedStep ordered =
        best_ordered(std::move(listed), question_.cost, cap, question_.choices.exchange_context);
    if (!fits(ordered.step, ordered.need.bytes, cap, question_.cost)) {
      out_.keep_less({ordered.need, choice.recompute});
      return std::nullopt;
    }
    const Nanos makespan = ordered.step.prediction.makespan;
    if (out_.step && makespan >= out_.step->prediction.makespan) return std::nullopt;
    if (!list_scheduled()) best_ = makespan;
    out_.step = std::move(ordered.step);
    return makespan;
  }

  const StepQuestion& question_;
  const SearchBasis& basis_;
  SearchDepth depth_;
  int threads_;
  const std::vector<RecomputeChoice>& choices_;
  std::vector<StageTable> tables_;     ///< by choice
  std::vector<Candidate> favourites_;  ///< of the quickest policy, whatever the memory cap
  double unlimited_ = 0;               ///< likewise, nanoseconds
  std::set<const RecomputeChoice*> searched_;
  std::optional<Nanos> best_;     ///< makespan of what is known or found
  std::optional<Found> found_;    ///< the best, where list_scheduled()
  std::optional<Found> unmixed_;  ///< the best one with a policy for all layers, if that is another
  BestStep out_;
};

}  // namespace

void BestStep::keep_less(const LeastNeed& other) {
  if (other.need.bytes == Bytes(0)) return;  // the search ran out of time
  if (!least || other.need.bytes < least->need.bytes) least = other;
}

void BestStep::keep_shorter(BestStep other) {
  if (other.least) keep_less(*other.least);
  if (!other.step) return;
  if (!step || other.step->prediction.makespan < step->prediction.makespan)
    *this = std::move(other);
}

SearchBasis search_basis(const StepQuestion& question, const std::function<void()>& progress) {
  SearchBasis basis{recompute_choices(question), {}, on_this_thread(progress)};
  const StageTable quickest =
      stage_table(question.cost, question.job, basis.recomputations.front().recompute);
  basis.shares = step_shares(step_problem(quickest, question.lengths, question.choices));
  return basis;
}

BestStep search_recomputations(const StepQuestion& question, const SearchBasis& basis,
                               const SearchDepth& depth, int threads, std::optional<Nanos> below) {
  return RecomputeSearch(question, basis, depth, threads, below).run();
}

}  // namespace slimpack
