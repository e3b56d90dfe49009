// Random steps to plan, of every kind that occurs: what the conformance suite plans with everything
// that makes plans.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/slice.h"

namespace slimpack::conformance {

struct Workload {
  std::string kind;  ///< of lengths and of costs, for people
  SequenceLengths lengths;
  Tokens granularity{1};
  Tokens context{1};  ///< holds the longest sequence, at times just so
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t stages_per_rank = 1;
  Costs cost;  ///< knows groups of up to 8 replicas
  /// [replica][rank of its pipeline]: how fast the ranks are in truth …
  std::vector<std::vector<double>> speed;
  bool uneven = false;  ///< … and whether the planner knows; else it takes all as equal
};

/// For failures.
void showValue(const Workload& workload, std::ostream& out);

/// The part of a step that takes most of the time.
enum class CostKind : std::uint8_t { kCompute, kOverhead, kLinks };
/// Costs of a model of eight layers on made-up hardware, with groups of up to 8 replicas.
[[nodiscard]] Costs cost_of(CostKind kind);

/// How much there is to plan.
struct Extent {
  std::size_t sequences = 24;  ///< at most
  std::int64_t longest = 48;   ///< granules
};

/// Log-normal, Pareto, bimodal or equal lengths on up to 8 stages of up to 8 replicas, at times
/// several on a rank, with costs
/// in which compute, overheads or links are most. Shrinks to fewer, shorter sequences on fewer
/// ranks.
[[nodiscard]] rc::Gen<Workload> workloads(const Extent& extent);

}  // namespace slimpack::conformance
