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
  std::int64_t nodes = 5000;   ///< of the search tree; its root alone may take long: see `seconds`
  double relative_gap = 1e-6;  ///< (objective − bound) / |objective| that counts as optimal
  /// Answers repeat exactly as long as this one is not what stops the search.
  std::optional<double> seconds = {};
};

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
  double bound = -kInfinity;  ///< no solution is cheaper, to the tolerances of the solver (1e-6)
  std::int64_t nodes = 0;     ///< searched; 0 when presolve or the start settled it
};

/// The cheapest values. Feasible `start` values (by variable; empty: none) are where the search
/// begins, and the result never costs more than they do; values that break the model are ignored.
/// The same arguments give the same outcome. Costs and row activities should be of the order of 1
/// to 1e4: the solver's tolerances are absolute. Calls from several threads at once are
/// independent. REQUIRES: costs that are bounded from below over the model; every model without a
/// finite optimum fails a SLIMPACK_CHECK, as does a start of another length or with NaN. Cost:
/// exponential at worst; the limits are for that.
[[nodiscard]] Outcome solve(const Model& model, const SolveLimits& limits,
                            std::span<const double> start = {});

}  // namespace slimpack::milp
