// Solves a model by branch and cut (HiGHS), one thread, repeatably.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/milp/model.h"

namespace slimpack::milp {

/// When to stop before the optimum is proven.
struct SolveLimits {
  std::int64_t nodes = 5000;   ///< of the search tree; its root alone may take long (`seconds`)
  double relative_gap = 1e-6;  ///< (objective − bound) / |objective| that counts as optimal
  /// Answers repeat exactly unless this limit stops the search.
  std::optional<double> seconds = {};
};

/// How far a binary may be from 0 or 1 while the solver searches (HiGHS'
/// mip_feasibility_tolerance).
inline constexpr double kSolverTolerance = 1e-6;

enum class Status {
  kOptimal,     ///< within relative_gap
  kFeasible,    ///< a limit was reached, with a solution
  kInfeasible,  ///< proven to have none
  kLimit,       ///< a limit was reached before a solution was found
};

struct Outcome {
  Status status = Status::kLimit;
  std::vector<double> values;  ///< by variable, binaries exactly 0 or 1; empty without a solution
  double objective = kInfinity;
  double bound = -kInfinity;  ///< no solution is cheaper, to kSolverTolerance
  std::int64_t nodes = 0;     ///< searched; 0 when presolve or the start settled it
};

/// The cheapest values. The search begins at feasible `start` values (by variable; empty = none),
/// and the result never costs more than they do. A start that breaks the model is ignored. The same
/// arguments give the same outcome. Costs and row activities should be of the order of 1 to 1e4,
/// because the solver's tolerances are absolute. Several threads may call at once. REQUIRES: the
/// cost is bounded from below, and `start` has no NaN and the model's length or none; otherwise a
/// SLIMPACK_CHECK fails. Cost: exponential at worst, up to the limits.
[[nodiscard]] Outcome solve(const Model& model, const SolveLimits& limits,
                            std::span<const double> start = {});

}  // namespace slimpack::milp
