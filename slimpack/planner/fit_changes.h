// Fit changes: what a job that does not fit its machine could do differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/recompute.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The settings that a job can change to fit. Its layers are not divided among the stages yet.
struct FitJob {
  ParallelGrid grid = {};
  Choices choices = {};  ///< most_merged may exceed what dp and the links allow
  std::optional<Bytes> memory_cap = std::nullopt;  ///< of a rank's activations

  bool operator==(const FitJob&) const = default;
};

/// How far a job can go.
struct FitLimits {
  std::int32_t layers = 1;  ///< of the model: there are no more stages
  std::int64_t heads = 1;   ///< of the model: tp divides them
  std::int32_t most_tp = 1;
  bool merging = true;                    ///< whether the costs of merged sequences are known
  bool offloads_optimizer = false;        ///< whether those of an optimizer on the host are known
  bool shards_replicas = false;           ///< whether replicas can share weights and optimizer out
  std::vector<Recompute> recompute = {};  ///< policies whose times are known
};

/// A changed job. Candidates of one line change the same things, each further than the one before.
/// When one fits, the rest of its line need not be tried.
struct FitCandidate {
  FitJob job;
  std::size_t line = 0;
};

/// Jobs that change one thing, mildest first: the planner, what replicas share out, recomputation,
/// the optimizer's place or merging; the arrangement of the same ranks (tp or pp for dp); two, four
/// or eight times the ranks by tp, pp or dp.
[[nodiscard]] std::vector<FitCandidate> single_changes(const FitJob& wish, const FitLimits& limits);

/// Jobs that change two of those things, fewest ranks first.
[[nodiscard]] std::vector<FitCandidate> double_changes(const FitJob& wish, const FitLimits& limits);

/// The keys in which `job` differs from `wish`, as --set takes them: "parallel.tp=4".
[[nodiscard]] std::vector<std::string> changed_settings(const FitJob& wish, const FitJob& job);

}  // namespace slimpack
