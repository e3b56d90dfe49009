#include "slimpack/planner/step_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/planner/exact_packs.h"

namespace slimpack {
namespace {

/// An exact assignment this near its bound is not improved further: cutting loses more.
constexpr double kExactBalanceGap = 1e-4;
/// Exact packs are made with as many MicroPacks as stages, and with twice as many; no more than so
/// many, for which no useful grid has a solvable program.
constexpr int kMostExactPacks = 8;

milp::SolveLimits exact_limits(const StepProblem& problem, double gap) {
  milp::SolveLimits limits{.nodes = problem.depth.exact.nodes, .relative_gap = gap};
  if (problem.depth.deadline)
    limits.seconds = std::max(0.0, to_seconds(*problem.depth.deadline - monotonic_now()));
  return limits;
}

/// By replica.
std::vector<double> speeds(const StepProblem& problem) {
  std::vector<double> out;
  for (const Pacing& pacing : problem.pacing) out.push_back(pacing.speed);
  return out;
}

/// Forward and backward of a sequence, as `assign` takes them.
std::vector<PackCost> group_costs(const StepProblem& problem) {
  const UnitCost cost = unit_cost(problem, problem.pacing.front().stage);
  std::vector<PackCost> out;
  for (std::size_t k = 0; k < cost.forward.size(); ++k)
    out.push_back(cost.forward[k] + cost.backward[k]);
  return out;
}

/// One way to share the step out, with the searches of its units.
struct Variant {
  std::vector<Unit> units;
  std::vector<std::unique_ptr<UnitSearch>> searches;  ///< by unit, as far as begun
};

/// The variant of an assignment, with its heaviest unit begun.
Variant begun(const StepProblem& problem, const Assignment& assignment,
              const std::vector<Candidate>& hints = {}) {
  Variant variant{units_of(problem.lengths, assignment), {}};
  variant.searches.push_back(std::make_unique<UnitSearch>(problem, variant.units.front(), hints));
  variant.searches.back()->advance();
  return variant;
}

/// Looks at candidates of the heaviest unit until only the ladder is left.
void explore_heaviest(const StepProblem& problem, const Variant& variant) {
  UnitSearch& search = *variant.searches.front();
  while (!search.explored() && !out_of_time(problem.depth)) search.advance();
}

/// Looks at so many candidates of the heaviest unit that variants can be compared.
void glance_at(const StepProblem& problem, const Variant& variant) {
  const MergeSearch& merging = problem.choices.search.merging;
  UnitSearch& search = *variant.searches.front();
  for (int seen = 1; seen < (search.best() ? merging.glance : merging.long_glance); ++seen) {
    if (search.explored() || out_of_time(problem.depth)) return;
    search.advance();
  }
}

/// The assignments that the thresholds of merging lead to, each once; the unmerged one first.
std::vector<Assignment> assignments_of(const StepProblem& problem) {
  const std::vector<double> speed = speeds(problem);
  const std::vector<PackCost> groups = group_costs(problem);
  std::vector<Assignment> assignments;
  for (const double merge_above : problem.choices.search.merging.above) {
    const Assignment assignment = assign(problem.lengths, speed, groups, merge_above);
    if (std::find(assignments.begin(), assignments.end(), assignment) == assignments.end())
      assignments.push_back(assignment);
    if (problem.choices.most_merged == 1) break;
  }
  return assignments;
}

Nanos makespan_of(const UnitSearch& search) {
  return search.best() ? search.best()->makespan : Nanos(std::numeric_limits<std::int64_t>::max());
}

/// The unit that the step waits for.
UnitSearch& slowest(const Variant& variant) {
  return **std::max_element(
      variant.searches.begin(), variant.searches.end(),
      [](const auto& a, const auto& b) { return makespan_of(*a) < makespan_of(*b); });
}

/// Always the slowest unit goes on, until it is exhausted or enough has been looked at.
void advance_slowest(const StepProblem& problem, const Variant& variant) {
  std::int64_t left = problem.choices.search.steps_per_unit * problem.depth.effort *
                      problem.depth.effort * static_cast<std::int64_t>(variant.units.size() - 1);
  for (;;) {
    UnitSearch& search = slowest(variant);
    if (search.exhausted() || out_of_time(problem.depth)) return;
    const bool heaviest = &search == variant.searches.front().get();
    // What does not fit yet has to be looked at to the end.
    if (!heaviest && search.best() && --left < 0) return;
    search.advance();
  }
}

/// What other units begin with.
const Candidate& hint_of(const UnitSearch& search) {
  return search.best() ? search.best()->candidate : search.favourite();
}

void search_units(const StepProblem& problem, Variant& variant) {
  const Candidate usual = variant.searches.front()->favourite();
  const Candidate hint = hint_of(*variant.searches.front());
  const auto begun = [&](std::size_t u, const auto& first) {
    auto search = std::make_unique<UnitSearch>(problem, variant.units[u], std::vector{first});
    search->advance();
    return search;
  };
  for (std::size_t u = 1; u < variant.units.size(); ++u) variant.searches.push_back(begun(u, hint));
  advance_slowest(problem, variant);
  if (slowest(variant).best() || hint == usual) return;
  // The hint came from what fits this cap. A refusal of a lower cap, under which nothing fitted,
  // looked at what the other one leads to, and promised that it fits.
  for (std::size_t u = 1; u < variant.units.size() && !out_of_time(problem.depth); ++u) {
    auto& search = variant.searches[u];
    while (!search->best() && !search->exhausted()) search->advance();
    if (!search->best()) search = begun(u, usual);
  }
  advance_slowest(problem, variant);
}

/// The slowest unit also rates exact packs; so does the next, if that is then another one.
void consider_exact(const StepProblem& problem, Variant& variant) {
  std::set<const UnitSearch*> done;
  for (;;) {
    UnitSearch& search = slowest(variant);
    if (!done.insert(&search).second) return;
    const int stages = problem.job.layout.stages();
    for (const int wanted : {stages, 2 * stages}) {
      if (out_of_time(problem.depth)) return;
      const int packs = std::clamp(wanted, 2, kMostExactPacks);
      if (auto exact = exact_packs(problem, search.unit(), packs,
                                   exact_limits(problem, problem.depth.exact.gap)))
        search.consider_extra(*std::move(exact));
      if (packs == kMostExactPacks) break;
    }
  }
}

bool rates_exact(const StepProblem& problem) {
  return problem.depth.exact.nodes > 0 && problem.candidates.empty();
}

void search_variant(const StepProblem& problem, Variant& variant) {
  explore_heaviest(problem, variant);
  search_units(problem, variant);
  if (rates_exact(problem)) consider_exact(problem, variant);
}

/// Looks at units that do not fit to the end; the least memory of those that still do not, 0 if
/// all do.
StageNeed least_need(const Variant& variant) {
  StageNeed most;
  for (const auto& search : variant.searches) {
    while (!search->best() && !search->exhausted()) search->advance();
    if (!search->best() && search->least_need().bytes > most.bytes) most = search->least_need();
  }
  return most;
}

void keep_best(const StepProblem& problem, Variant& variant, StepSearchResult& result) {
  if (!slowest(variant).best()) {
    if (out_of_time(problem.depth) || problem.below) return;
    const StageNeed need = least_need(variant);
    const bool least = result.least_need.bytes == Bytes(0) || need.bytes < result.least_need.bytes;
    if (need.bytes > Bytes(0) && least) result.least_need = need;
    if (need.bytes > Bytes(0)) return;
  }
  const UnitSearch& search = slowest(variant);
  if (result.solution && makespan_of(search) >= result.solution->makespan) return;
  StepSolution solution;
  solution.makespan = makespan_of(search);
  for (const auto& unit : variant.searches) solution.rated.push_back(*unit->best());
  variant.searches.clear();
  solution.units = std::move(variant.units);
  result.solution = std::move(solution);
}

/// Merging pays where a sequence outweighs its replica, where memory makes the step longer, or
/// where a unit does not fit.
bool may_merge(const StepProblem& problem, const Variant& variant) {
  const MergeSearch& merging = problem.choices.search.merging;
  if (!slowest(variant).best()) return true;
  const UnitSearch& unmerged = *variant.searches.front();
  const auto makespan = static_cast<double>(unmerged.best()->makespan.count());
  if (makespan > merging.hindered * unmerged.free_makespan()) return true;
  const PackCost work = group_costs(problem).front();
  const Tokens longest = *std::max_element(problem.lengths.begin(), problem.lengths.end());
  return work(Slice{SequenceId(), Tokens(0), longest}) > merging.heavy * unmerged.unit().load;
}

/// Whether there is no more to expect of the variant than what has been found.
bool hopeless(const StepProblem& problem, const Variant& variant, const StepSearchResult& result) {
  if (!result.solution) return false;
  const auto found = static_cast<double>(result.solution->makespan.count());
  const auto heaviest = static_cast<double>(makespan_of(*variant.searches.front()).count());
  return variant.units.front().load >= found ||
         problem.choices.search.merging.promising * heaviest >= found;
}

/// `hint`: what was best unmerged.
void search_merged(const StepProblem& problem, std::span<const Assignment> assignments,
                   const Candidate& hint, StepSearchResult& result) {
  std::vector<Variant> variants;
  for (const Assignment& assignment : assignments) {
    variants.push_back(begun(problem, assignment, {hint}));
    glance_at(problem, variants.back());
  }
  std::stable_sort(variants.begin(), variants.end(), [](const Variant& a, const Variant& b) {
    return makespan_of(*a.searches.front()) < makespan_of(*b.searches.front());
  });
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const bool late = v >= problem.choices.search.merging.variants || out_of_time(problem.depth) ||
                      hopeless(problem, variants[v], result);
    if (late && result.solution) continue;
    search_variant(problem, variants[v]);
    keep_best(problem, variants[v], result);
  }
}

/// The unmerged sequences as an exact balance shares them out, where that differs from `fast`.
void search_balanced(const StepProblem& problem, const Assignment& fast, StepSearchResult& result) {
  const Assignment assignment =
      assign(problem.lengths, speeds(problem), group_costs(problem),
             problem.choices.search.merging.above.front(), exact_limits(problem, kExactBalanceGap));
  if (assignment == fast || out_of_time(problem.depth)) return;
  Variant variant = begun(problem, assignment);
  search_variant(problem, variant);
  keep_best(problem, variant, result);
}

/// A merged sequence or two where whole ones leave replicas unlike.
void search_levelled(const StepProblem& problem, const Assignment& whole,
                     StepSearchResult& result) {
  const Assignment assignment = levelled(problem.lengths, speeds(problem), group_costs(problem),
                                         whole, problem.choices.search.merging.unlike);
  if (assignment == whole || out_of_time(problem.depth)) return;
  Variant variant = begun(problem, assignment);
  search_variant(problem, variant);
  keep_best(problem, variant, result);
}

}  // namespace

StepSearchResult search_step(const StepProblem& problem) {
  StepSearchResult result;
  const std::vector<Assignment> assignments = assignments_of(problem);
  Variant unmerged = begun(problem, assignments.front());
  search_variant(problem, unmerged);
  const bool merge = assignments.size() > 1 && may_merge(problem, unmerged);
  const Candidate usual = unmerged.searches.front()->favourite();
  const Candidate hint = hint_of(*unmerged.searches.front());
  result.favourites = unmerged.searches.front()->favourites();
  keep_best(problem, unmerged, result);
  if (rates_exact(problem)) search_balanced(problem, assignments.front(), result);
  if (problem.choices.most_merged > 1 && problem.choices.search.merging.levelled)
    search_levelled(problem, assignments.front(), result);
  if (!merge) return result;
  const std::span merged = std::span(assignments).subspan(1);
  search_merged(problem, merged, hint, result);
  // As in search_units: what a refusal of a lower cap promised was found from the usual hint.
  if (!result.solution && hint != usual) search_merged(problem, merged, usual, result);
  return result;
}

}  // namespace slimpack
