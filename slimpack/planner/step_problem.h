// What every candidate plan of a step shares.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/planner.h"
#include "slimpack/solver/assign.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// The stage of a replica that needs the most time for all sequences of the step, and how fast the
/// replica is there, measured by the time that the step's pacing stage needs at speed 1.
struct Pacing {
  StageId stage;
  double speed = 1;
};

/// How far exact answers go. Programs grow with the product of granules and MicroPacks; most of the
/// time goes into the root of the tree.
struct ExactEffort {
  std::int64_t nodes = 0;  ///< of each tree; 0 = fast answers only
  std::size_t size = 0;    ///< granules × MicroPacks of a program, at most
  double gap = 1e-2;       ///< distance from its bound at which a cut is good enough
};

/// How far a search goes.
struct SearchDepth {
  std::int32_t effort = 1;  ///< as Choices::effort
  ExactEffort exact = {};
  std::optional<Nanos> deadline = std::nullopt;  ///< of monotonic_now(): search no further then
};

/// What all candidates of a step share once its recomputation is chosen. Keeps references.
struct StepProblem {
  const Job& job;
  const SequenceLengths& lengths;
  const Choices& choices;
  const RecomputingCosts& cost;
  SearchDepth depth = {};
  std::vector<Pacing> pacing = {};  ///< by replica; `paced` fills it in
  /// Where not empty, units are cut in these ways and no other, and no exact answers are rated.
  std::vector<Candidate> candidates = {};
  /// Only solutions below it are of use: what cannot be is not looked at further.
  std::optional<Nanos> below = std::nullopt;
  /// Told of each candidate that was looked at; may be null.
  const std::function<void()>* progress = nullptr;
};

/// The problem with the pacing of its replicas. Cost: O(stages · (sequences + replicas)).
[[nodiscard]] StepProblem paced(StepProblem problem);

/// Whether the deadline has passed.
[[nodiscard]] bool out_of_time(const SearchDepth& depth);

/// The most bytes that any stage needs, and which one that is (ties: the first).
struct StageNeed {
  Bytes bytes;
  StageId stage;
};
[[nodiscard]] StageNeed largest_need(const std::vector<Bytes>& by_stage);

[[nodiscard]] Replication replication_of(const Job& job, ReplicaId replica);

/// By group of 2^k replicas up to most_merged: the costs of slices on a stage.
[[nodiscard]] UnitCost unit_cost(const StepProblem& problem, StageId stage);

}  // namespace slimpack
