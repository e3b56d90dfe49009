#include "slimpack/planner/step_variant.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "slimpack/base/progress.h"
#include "slimpack/base/threads.h"
#include "slimpack/planner/exact_packs.h"

namespace slimpack {
namespace {

/// Exact packs are made with as many MicroPacks as ranks, and with twice as many; no more than so
/// many, for which no useful grid has a solvable program.
constexpr int kMostExactPacks = 8;

/// Candidates of the first look at a variant's heaviest unit, and the most of them where none fits.
constexpr int kGlance = 3;
constexpr int kLongGlance = 8;

/// Looks at the next candidate that has a chance.
void explore_or_refine(UnitSearch& search) {
  if (!explore(search.problem, search.known)) refine(search.problem, search.known);
}

/// Looks at the next candidate that has a chance, or puts the next one on the ladder.
void advance(UnitSearch& search) {
  search.problem.request.progress();
  if (search.known.explored())
    climb(search.problem, search.known);
  else
    explore_or_refine(search);
}

bool exhausted(const UnitSearch& search) {
  return exhausted(search.problem, search.known);
}

std::unique_ptr<UnitSearch> begun(const SearchRequest& request, const Unit& unit,
                                  const std::vector<Candidate>& hints) {
  UnitProblem problem = unit_problem(request, unit, hints);
  UnitKnown known = nothing_known(problem);
  return std::make_unique<UnitSearch>(UnitSearch{std::move(problem), std::move(known)});
}

/// Looks at candidates until one fits, or none is left.
void search_until_fits(UnitSearch& search) {
  while (!search.best() && !exhausted(search)) advance(search);
}

/// Always the slowest unit goes on, until it is exhausted or enough has been looked at: in the
/// first round one candidate beyond the first, on average over all units but the heaviest.
void advance_slowest(const SearchRequest& request, const Variant& variant) {
  std::int64_t left = std::int64_t{request.depth.effort} * request.depth.effort *
                      static_cast<std::int64_t>(variant.units.size() - 1);
  for (;;) {
    UnitSearch& search = slowest(variant);
    if (exhausted(search) || out_of_time(request.depth)) return;
    const bool heaviest = &search == variant.searches.front().get();
    // A search that has found nothing that fits has to look at all its candidates.
    if (!heaviest && search.best() && --left < 0) return;
    advance(search);
  }
}

void search_units(const SearchRequest& request, Variant& variant) {
  const UnitSearch& heaviest = *variant.searches.front();
  const Candidate usual = heaviest.known.favourite();
  const Candidate hint = hint_of(heaviest);
  const bool limited = heaviest.best().has_value();
  const Nanos enough = makespan_of(heaviest);
  const auto glanced_at = [&](std::size_t u, const Candidate& first) {
    auto search = begun(request, variant.units[u], {first});
    if (limited) glance(search->problem, search->known, enough);
    if (!search->best()) explore_or_refine(*search);
    return search;
  };
  variant.searches.resize(variant.units.size());
  for_each_index(variant.units.size() - 1, request.threads,
                 [&](std::size_t i) { variant.searches[i + 1] = glanced_at(i + 1, hint); });
  request.progress();
  advance_slowest(request, variant);
  if (slowest(variant).best() || hint == usual) return;
  // The hint came from a candidate that fits this cap. The refusal of a lower cap, under which
  // nothing fitted, looked at what the usual hint leads to, and promised that it fits.
  for (std::size_t u = 1; u < variant.units.size() && !out_of_time(request.depth); ++u) {
    auto& search = variant.searches[u];
    search_until_fits(*search);
    if (!search->best()) search = glanced_at(u, usual);
  }
  advance_slowest(request, variant);
}

/// The slowest unit also rates exact packs; so does the next, if that is then another one.
void consider_exact(const SearchRequest& request, Variant& variant) {
  std::set<const UnitSearch*> done;
  for (;;) {
    UnitSearch& search = slowest(variant);
    if (!done.insert(&search).second) return;
    const int ranks = request.problem.table.layout().ranks();
    for (const int wanted : {ranks, 2 * ranks}) {
      if (out_of_time(request.depth)) return;
      const int packs = std::clamp(wanted, 2, kMostExactPacks);
      if (auto exact = exact_packs(request, search.problem.unit, packs,
                                   exact_limits(request, request.depth.exact.gap)))
        rate_packs(search.problem, search.known, *std::move(exact));
      if (packs == kMostExactPacks) break;
    }
  }
}

}  // namespace

Variant begun(const SearchRequest& request, const Assignment& assignment,
              const std::vector<Candidate>& hints) {
  Variant variant{units_of(request.problem.lengths, assignment), {}};
  variant.searches.push_back(begun(request, variant.units.front(), hints));
  advance(*variant.searches.back());
  return variant;
}

void explore_heaviest(const SearchRequest& request, const Variant& variant) {
  UnitSearch& search = *variant.searches.front();
  while (!search.known.explored() && !out_of_time(request.depth)) advance(search);
}

void glance_at(const SearchRequest& request, const Variant& variant, bool found) {
  UnitSearch& search = *variant.searches.front();
  const auto looks = [&] { return found || search.best() ? kGlance : kLongGlance; };
  for (int seen = 1; seen < looks(); ++seen) {
    if (search.known.explored() || out_of_time(request.depth)) return;
    advance(search);
  }
}

Nanos makespan_of(const UnitSearch& search) {
  return search.best() ? search.best()->makespan : Nanos(std::numeric_limits<std::int64_t>::max());
}

UnitSearch& slowest(const Variant& variant) {
  return **std::max_element(
      variant.searches.begin(), variant.searches.end(),
      [](const auto& a, const auto& b) { return makespan_of(*a) < makespan_of(*b); });
}

const Candidate& hint_of(const UnitSearch& search) {
  return search.best() ? search.best()->candidate : search.known.favourite();
}

bool rates_exact(const SearchRequest& request) {
  return request.depth.exact.nodes > 0 && request.candidates.empty();
}

void search_variant(const SearchRequest& request, Variant& variant) {
  explore_heaviest(request, variant);
  if (!request.wants_need) {
    search_until_fits(*variant.searches.front());
    if (!variant.searches.front()->best()) return;
  }
  search_units(request, variant);
  if (rates_exact(request)) consider_exact(request, variant);
}

bool waits_for_group(const Variant& variant) {
  const UnitSearch& search = slowest(variant);
  return search.best() && search.problem.unit.replicas.size() > 1;
}

void widen_groups(const SearchRequest& request, Variant& variant) {
  auto left = static_cast<std::int64_t>(request.depth.effort) * request.depth.effort *
              static_cast<std::int64_t>(variant.units.size());
  while (waits_for_group(variant) && !out_of_time(request.depth) && left-- > 0) {
    UnitSearch& search = slowest(variant);
    if (exhausted(search) && !widen(search.problem, search.known)) return;
    if (!exhausted(search)) advance(search);
  }
}

RankNeed least_need(const Variant& variant) {
  RankNeed most;
  for (const auto& search : variant.searches) {
    search_until_fits(*search);
    if (!search->best() && search->known.least_need->bytes > most.bytes)
      most = *search->known.least_need;
  }
  return most;
}

milp::SolveLimits exact_limits(const SearchRequest& request, double gap) {
  milp::SolveLimits limits{.nodes = request.depth.exact.nodes, .relative_gap = gap};
  if (request.depth.deadline)
    limits.seconds = std::max(0.0, to_seconds(*request.depth.deadline - monotonic_now()));
  return limits;
}

}  // namespace slimpack
