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

namespace slimpack {

/// What a job can change to fit: how its ranks are arranged, before the layers are divided among
/// them, and what may be tried.
struct FitJob {
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  Choices choices = {};  ///< most_merged may exceed what dp and the links allow
  std::optional<Bytes> memory_cap = std::nullopt;  ///< of a rank's activations

  [[nodiscard]] std::int64_t ranks() const { return std::int64_t{pp} * dp * tp; }
  bool operator==(const FitJob&) const = default;
};

/// How far a job can go.
struct FitLimits {
  std::int32_t layers = 1;  ///< of the model: pp is no larger
  std::int64_t heads = 1;   ///< of the model: tp divides them
  std::int32_t most_tp = 1;
  bool merging = true;                    ///< whether the costs of merged sequences are known
  std::vector<Recompute> recompute = {};  ///< policies whose times are known
};

/// A changed job. Candidates of one line turn the same dials, each further than the one before:
/// when one fits, the rest of its line need not be tried.
struct FitCandidate {
  FitJob job;
  std::size_t line = 0;
};

/// Jobs that change one thing, mildest first: the planner, recomputation, merging; the same ranks
/// arranged differently (tp or pp for dp); two, four or eight times the ranks by tp, pp or dp.
[[nodiscard]] std::vector<FitCandidate> single_changes(const FitJob& wish, const FitLimits& limits);

/// Jobs that change two of those things, fewest ranks first.
[[nodiscard]] std::vector<FitCandidate> double_changes(const FitJob& wish, const FitLimits& limits);

/// The keys in which `job` differs from `wish`, as --set takes them: "parallel.tp=4".
[[nodiscard]] std::vector<std::string> changed_settings(const FitJob& wish, const FitJob& job);

}  // namespace slimpack
