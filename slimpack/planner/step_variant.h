// Step variant: one way to share a step out, and the search of its units.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/milp/solve.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/planner/unit_search.h"
#include "slimpack/solver/assign.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// A unit, and what is known of it so far.
struct UnitSearch {
  UnitProblem problem;
  UnitKnown known;

  [[nodiscard]] const std::optional<RatedUnit>& best() const { return known.best; }
};

/// Units, the heaviest first, with their searches.
struct Variant {
  std::vector<Unit> units;
  std::vector<std::unique_ptr<UnitSearch>> searches;  ///< by unit, as far as begun
};

/// The variant of an assignment, with its heaviest unit begun. Keeps a reference to the
/// request. `hints`: candidates to begin with.
[[nodiscard]] Variant begun(const SearchRequest& request, const Assignment& assignment,
                            const std::vector<Candidate>& hints = {});

/// Looks at candidates of the heaviest unit until only the ladder is left.
void explore_heaviest(const SearchRequest& request, const Variant& variant);

/// Looks at so many candidates of the heaviest unit that variants can be compared; further where
/// nothing that fits has been `found` yet.
void glance_at(const SearchRequest& request, const Variant& variant, bool found);

/// Searches all units. Every other unit begins with the best candidate of the heaviest; then the
/// slowest one goes on. Where the request asks for them, the slowest also rates exact packs.
void search_variant(const SearchRequest& request, Variant& variant);

/// Whether the unit that the step waits for is a group of replicas, and fits.
[[nodiscard]] bool waits_for_group(const Variant& variant);

/// The group that the step waits for goes on, with candidates that the request does not name, until
/// the step waits for another unit or enough has been looked at. REQUIRES: search_variant was
/// called.
void widen_groups(const SearchRequest& request, Variant& variant);

/// The makespan of the best schedule that fits; the largest number where there is none.
[[nodiscard]] Nanos makespan_of(const UnitSearch& search);

/// The unit that the step waits for.
[[nodiscard]] UnitSearch& slowest(const Variant& variant);

/// The candidate with which other units begin.
[[nodiscard]] const Candidate& hint_of(const UnitSearch& search);

/// Looks at units that do not fit to the end; the least memory of those that still do not, 0 if
/// all do.
[[nodiscard]] RankNeed least_need(const Variant& variant);

/// Whether exact answers are rated.
[[nodiscard]] bool rates_exact(const SearchRequest& request);

/// How far programs go: `gap` is near enough.
[[nodiscard]] milp::SolveLimits exact_limits(const SearchRequest& request, double gap);

}  // namespace slimpack
