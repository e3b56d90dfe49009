// Rivals: the plans of users today for the same documents, beside a plan of ours, and the verdict
// that a page says first.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/planner/planner.h"
#include "slimpack/report/comparison.h"
#include "slimpack/report/report_source.h"

namespace slimpack {

/// The job of a plan within its limits. Plans of slices may have sequences longer than their
/// context; packs of whole ones then need as much.
[[nodiscard]] Job job_of(const PlanFile& file, const PlanLimits& limits);

/// The choices that another planner has for the plan's job.
[[nodiscard]] Choices choices_within(const PlanLimits& limits);

/// The plan's documents as most users run them: the baseline "packed" as published, with one stage
/// on each rank.
[[nodiscard]] RatedPlan packed_rival(const PlanFile& file, const PlanLimits& limits);

/// The rows of a comparison: first the plan itself under the name `planner`, as it is predicted,
/// then every baseline, tuned. `advance` is called after each baseline, and `tick`, if set,
/// after each of its tunings. Cost: planning by every baseline.
[[nodiscard]] std::vector<ComparedPlanner> rivals_of(const PlanFile& file, const PlanLimits& limits,
                                                     const std::string& planner,
                                                     const std::function<void()>& advance,
                                                     const std::function<void()>& tick);

/// The rows of rivals_of in the form of to_json(ComparedPlanner), with "fits" and without the time
/// that planning took.
[[nodiscard]] nlohmann::ordered_json rivals_for_page(const std::vector<ComparedPlanner>& rows,
                                                     const std::optional<Bytes>& cap);

struct Verdict {
  /// The plan beside the fastest other planner that keeps the memory cap; of a run that compared by
  /// turns, what these measured.
  std::string headline;
  std::string figures;  ///< the step's figures, as sentences
};

/// The index of the fastest of `rows` within the cap but the first, which is the plan itself; the
/// first of several. nullopt if none fits.
[[nodiscard]] std::optional<std::size_t> best_rival(const std::vector<ComparedPlanner>& rows,
                                                    const std::optional<Bytes>& cap);

/// REQUIRES: the first of `rows` is the plan of `source` and has figures.
[[nodiscard]] Verdict verdict_of(const ReportSource& source,
                                 const std::vector<ComparedPlanner>& rows);

}  // namespace slimpack
