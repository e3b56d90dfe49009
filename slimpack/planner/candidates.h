// Candidates: the ways of cutting and running a unit that the planner compares.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/slice.h"
#include "slimpack/planner/planner.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// The properties of a candidate that local search varies, in this order.
enum class SearchDirection : std::uint8_t {
  kFill,        ///< whether sequences are cut to fill MicroPacks up
  kPacks,       ///< the number of MicroPacks
  kTaper,       ///< how MicroPacks shrink towards both ends
  kShortAhead,  ///< short sequences ahead of the longest
  kCuts,        ///< symmetric or asymmetric
  kSplit,       ///< how many backwards are split
};
inline constexpr std::array kSearchDirections = {
    SearchDirection::kFill,       SearchDirection::kPacks, SearchDirection::kTaper,
    SearchDirection::kShortAhead, SearchDirection::kCuts,  SearchDirection::kSplit};

/// The directions of choices that are not kept to a value.
[[nodiscard]] std::vector<SearchDirection> free_directions(const SearchOptions& kept);

struct Candidate {
  UnitCutOptions cut;
  /// This many of the last backward MicroPacks, times the stages, may be split (ListPolicy).
  std::int32_t split_per_stage = 0;

  bool operator==(const Candidate&) const = default;
};

/// The limits of a unit's candidates.
struct CandidateSpace {
  int stages = 1;
  std::int64_t granules = 1;   ///< pieces of at most `granularity` tokens on its fullest replica
  std::int64_t sequences = 1;  ///< on its fullest replica
  std::int64_t longest = 1;    ///< granules of the longest sequence of any replica
  Tokens granularity{128};
  bool split = false;   ///< whether backwards may be split
  bool paired = false;  ///< whether backward runs forward's MicroPacks
  bool ring = false;    ///< whether a rank has several stages
  SearchOptions kept = {};
};
[[nodiscard]] CandidateSpace candidate_space(const Unit& unit, int stages, Tokens granularity,
                                             const SearchOptions& kept);

/// Candidates with one MicroPack per stage, two, four, …, fewest first; a single one where the
/// number is kept to a value. None depends on a memory cap, so a larger cap only adds
/// choices.
[[nodiscard]] std::vector<Candidate> coarse_candidates(const CandidateSpace& space);

/// Candidates that differ from this one in one direction of the search. `wide`: more of them.
[[nodiscard]] std::vector<Candidate> neighbours(const Candidate& candidate,
                                                const CandidateSpace& space,
                                                SearchDirection direction, bool wide = false);

/// The number of pieces of at most `granularity` tokens in all sequences.
[[nodiscard]] std::int64_t total_granules(const SequenceLengths& lengths, Tokens granularity);

}  // namespace slimpack
