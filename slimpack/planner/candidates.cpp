#include "slimpack/planner/candidates.h"

#include <algorithm>

namespace slimpack {
namespace {

/// Small MicroPacks at either end fill and drain the pipeline sooner.
constexpr double kTaper = 0.25;
/// A few short sequences ahead let the first backward start before the longest one has passed.
constexpr int kShortFirst = 4;

}  // namespace

std::int64_t total_granules(const SequenceLengths& lengths, Tokens granularity) {
  std::int64_t total = 0;
  for (const Tokens length : lengths)
    total += (length.count() + granularity.count() - 1) / granularity.count();
  return total;
}

std::vector<Candidate> plan_candidates(const SequenceLengths& lengths, int stages,
                                       Tokens granularity) {
  const std::int64_t granules = total_granules(lengths, granularity);
  std::vector<Candidate> candidates;
  for (std::int64_t packs = stages; packs <= std::int64_t{kMostPacksPerStage} * stages;
       packs *= 2) {
    const int count = static_cast<int>(std::min(packs, granules));
    for (const int taper_packs : {0, 2 * stages}) {
      if (taper_packs > 0 && 4 * taper_packs > count) continue;
      for (const int short_first : {0, kShortFirst}) {
        if (short_first > 0 && lengths.size() <= static_cast<std::size_t>(short_first)) continue;
        for (const bool asymmetric : {true, false})
          candidates.push_back(
              {short_first, FluidCutOptions{.packs = count,
                                            .granularity = granularity,
                                            .taper_packs = taper_packs,
                                            .taper = taper_packs > 0 ? kTaper : 1.0,
                                            .asymmetric = asymmetric}});
      }
    }
    if (packs >= granules) break;
  }
  return candidates;
}

}  // namespace slimpack
