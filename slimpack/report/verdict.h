// Verdict: what a page says first of a plan or a run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/report/comparison.h"
#include "slimpack/report/report_source.h"

namespace slimpack {

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
