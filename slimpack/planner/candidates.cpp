#include "slimpack/planner/candidates.h"

#include <algorithm>
#include <cmath>

namespace slimpack {
namespace {

/// The most MicroPacks of a pass that are tried, for each stage of the pipeline: the larger of two
/// limits. The time to plan grows with them. 256 lower the bubble below 1%. With as many tokens in
/// 8 MicroPacks as the longest sequence has, those in a pipeline need little memory beside that
/// sequence.
constexpr int kMostPerStage = 256;
constexpr int kMostPerLongest = 8;
/// Small MicroPacks at both ends fill and drain the pipeline sooner. With short sequences ahead,
/// the first backward starts before the longest sequence has passed.
constexpr double kFirstTaper = 0.25;
constexpr int kTaperPerStage = 2;
constexpr int kFirstShort = 4;
/// Candidate::split_per_stage of every backward.
constexpr std::int32_t kSplitAll = 1 << 16;

std::int64_t granules_of(Tokens length, Tokens granularity) {
  return (length.count() + granularity.count() - 1) / granularity.count();
}

int allowed_packs(const CandidateSpace& space, double packs) {
  const std::int64_t per_stage =
      std::max<std::int64_t>(kMostPerStage, kMostPerLongest * space.granules / space.longest);
  const std::int64_t most = std::min(space.granules, per_stage * space.stages);
  return static_cast<int>(std::clamp<std::int64_t>(std::llround(packs), 1, most));
}

int allowed_short(const CandidateSpace& space, int short_first) {
  return space.sequences > short_first ? short_first : 0;
}

double first_taper(const CandidateSpace& space) {
  return space.kept.taper.value_or(kFirstTaper);
}

/// Around a ring of stages unequal MicroPacks wait for each other, and it fills quickly anyhow.
int first_taper_packs(const CandidateSpace& space) {
  return space.ring && !space.kept.taper ? 0 : kTaperPerStage * space.stages;
}

void set_taper(UnitCutOptions& candidate, int taper_packs, double taper) {
  const bool room = taper_packs > 0 && taper < 1 && 2 * taper_packs <= candidate.fluid.packs;
  candidate.fluid.taper_front = candidate.fluid.taper_back = room ? taper_packs : 0;
  candidate.fluid.taper = room ? taper : 1.0;
}

Candidate first_candidate(const CandidateSpace& space, int packs) {
  Candidate candidate;
  candidate.cut.fluid.granularity = space.granularity;
  candidate.cut.fluid.packs = packs;
  candidate.cut.paired = space.paired;
  candidate.cut.fluid.asymmetric = true;
  candidate.cut.fluid.fill = false;
  if (!space.paired) set_taper(candidate.cut, first_taper_packs(space), first_taper(space));
  candidate.cut.short_first = allowed_short(space, space.kept.short_first.value_or(kFirstShort));
  candidate.split_per_stage = space.split ? kSplitAll : 0;
  return candidate;
}

}  // namespace

std::vector<SearchDirection> free_directions(const SearchOptions& kept) {
  std::vector<SearchDirection> free(kSearchDirections.begin(), kSearchDirections.end());
  if (kept.packs) std::erase(free, SearchDirection::kPacks);
  if (kept.taper) std::erase(free, SearchDirection::kTaper);
  if (kept.short_first) std::erase(free, SearchDirection::kShortAhead);
  return free;
}

std::int64_t total_granules(const SequenceLengths& lengths, Tokens granularity) {
  std::int64_t total = 0;
  for (const Tokens length : lengths) total += granules_of(length, granularity);
  return total;
}

CandidateSpace candidate_space(const Unit& unit, int stages, Tokens granularity,
                               const SearchOptions& kept) {
  CandidateSpace space{.stages = stages, .granularity = granularity, .kept = kept};
  for (const ReplicaShare& share : unit.replicas) {
    space.granules = std::max(space.granules, total_granules(share.lengths, granularity));
    space.sequences = std::max(space.sequences, static_cast<std::int64_t>(share.lengths.size()));
    for (const Tokens length : share.lengths)
      space.longest = std::max(space.longest, granules_of(length, granularity));
  }
  return space;
}

std::vector<Candidate> coarse_candidates(const CandidateSpace& space) {
  if (space.kept.packs) {
    const auto packs = std::min<std::int64_t>(*space.kept.packs, space.granules);
    return {first_candidate(space, static_cast<int>(packs))};
  }
  std::vector<Candidate> candidates;
  const int most = allowed_packs(space, std::ldexp(1.0, 30));
  for (int packs = space.stages; packs < 2 * most || candidates.empty(); packs *= 2)
    candidates.push_back(first_candidate(space, allowed_packs(space, packs)));
  return candidates;
}

std::vector<Candidate> neighbours(const Candidate& candidate, const CandidateSpace& space,
                                  SearchDirection direction, bool wide) {
  using Factors = std::vector<double>;
  using Counts = std::vector<int>;
  std::vector<Candidate> out;
  const auto change = [&](auto edit) { edit(out.emplace_back(candidate).cut); };
  const int p = space.stages;
  switch (direction) {
    case SearchDirection::kPacks:
      for (const double factor : wide ? Factors{0.6, 0.77, 0.88, 0.94, 1.06, 1.13, 1.3, 1.7}
                                      : Factors{0.7, 0.84, 1.19, 1.41})
        change([&](UnitCutOptions& c) {
          const bool tapered = c.fluid.taper_front > 0;
          c.fluid.packs = allowed_packs(space, factor * c.fluid.packs);
          if (c.paired) return;
          set_taper(c, tapered ? c.fluid.taper_front : first_taper_packs(space),
                    tapered ? c.fluid.taper : first_taper(space));
        });
      break;
    case SearchDirection::kTaper:
      if (space.paired) break;
      change([&](UnitCutOptions& c) { set_taper(c, 0, 1.0); });
      for (const int packs : wide ? Counts{p, 2 * p, 3 * p, 4 * p, 6 * p} : Counts{p, 2 * p, 4 * p})
        for (const double taper :
             wide ? Factors{0.5, 0.35, 0.25, 0.12, 0.06} : Factors{0.5, 0.25, 0.12})
          change([&](UnitCutOptions& c) { set_taper(c, packs, taper); });
      break;
    case SearchDirection::kShortAhead:
      for (const int short_first :
           wide ? Counts{0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64} : Counts{0, 1, 2, 4, 8, 16})
        change([&](UnitCutOptions& c) { c.short_first = allowed_short(space, short_first); });
      break;
    case SearchDirection::kCuts:
      if (space.paired) break;
      change([](UnitCutOptions& c) { c.fluid.asymmetric = !c.fluid.asymmetric; });
      break;
    case SearchDirection::kFill:
      if (space.paired) break;
      change([](UnitCutOptions& c) { c.fluid.fill = !c.fluid.fill; });
      break;
    case SearchDirection::kSplit:
      if (!space.split) break;
      for (const std::int32_t split : {0, 2, 4, kSplitAll})
        if (split != candidate.split_per_stage) out.emplace_back(candidate).split_per_stage = split;
  }
  return out;
}

}  // namespace slimpack
