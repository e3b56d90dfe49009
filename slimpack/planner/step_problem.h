// Step problem: the input of every search for a step's plan, and what is asked of the search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/planner.h"
#include "slimpack/solver/assign.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// The rank of a replica's pipeline that needs the most time for all sequences of the step, and the
/// replica's speed: the time of the slowest rank at speed 1, divided by the time of this rank.
struct Pacing {
  std::int32_t rank = 0;
  double speed = 1;
};

/// How far exact answers go. Programs grow with the product of granules and MicroPacks. The root of
/// the tree takes most of the time.
struct ExactEffort {
  std::int64_t nodes = 0;  ///< of each tree; 0 = fast answers only
  std::size_t size = 0;    ///< the most granules × MicroPacks of a program
  double gap = 1e-2;       ///< a cut this near its bound is good enough
};

/// How far a search goes.
struct SearchDepth {
  std::int32_t effort = 1;  ///< as Choices::effort
  ExactEffort exact = {};
  std::optional<Nanos> deadline = std::nullopt;  ///< the search ends then; of monotonic_now()
};

/// A step whose costs are bound. Keeps references.
struct StepProblem {
  StageTable table;
  const SequenceLengths& lengths;
  const Choices& choices;
  std::optional<Bytes> memory_cap;  ///< activations of a rank
  std::vector<Pacing> pacing;       ///< by replica

  /// Whether backward MicroPacks are to hold the slices of forward ones: because that is asked for,
  /// or because only then graphs are kept.
  [[nodiscard]] bool paired() const {
    return choices.cuts == CutsKind::kSymmetric || table.keeps_graphs();
  }
};

/// The search of a problem that step, unit and exact searches take. Keeps a reference.
struct SearchRequest {
  const StepProblem& problem;
  SearchDepth depth = {};
  /// If not empty, units are cut only in these ways, and no exact answers are rated.
  std::vector<Candidate> candidates = {};
  /// Only steps below this makespan are of use. Candidates that cannot be below it are given up.
  std::optional<Nanos> below = std::nullopt;
  /// Whether to find, where nothing fits, the memory that is needed. It takes a look at everything.
  bool wants_need = true;
  /// Whether to look at ways to share the step out that take much longer than another one, also
  /// where replicas hold so many sequences that the look is costly.
  bool much_heavier = true;
  std::function<void()> progress = [] {};  ///< called now and then, on the thread that searches
  int threads = 1;  ///< that the search may use; they change nothing about its result
};

/// Cost: O(sequences + stages · replicas), where layers have windows O(stages · sequences).
[[nodiscard]] StepProblem step_problem(const StageTable& table, const SequenceLengths& lengths,
                                       const Choices& choices,
                                       const std::optional<Bytes>& memory_cap = std::nullopt);

/// Whether the deadline has passed.
[[nodiscard]] bool out_of_time(const SearchDepth& depth);

/// The most bytes that any rank of a pipeline needs, and that rank (ties: the first).
struct RankNeed {
  Bytes bytes;
  std::int32_t rank = 0;
};
[[nodiscard]] RankNeed largest_need(const std::vector<Bytes>& by_rank);

/// The costs of slices on a rank, for groups of 2^k replicas up to most_merged.
[[nodiscard]] UnitCost unit_cost(const StepProblem& problem, std::int32_t rank);

}  // namespace slimpack
