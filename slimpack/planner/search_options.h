// Search options: what the planner's search tries, and how far it looks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace slimpack {

/// What local search varies about a candidate.
enum class SearchDirection : std::uint8_t {
  kPacks,       ///< the number of MicroPacks
  kTaper,       ///< how MicroPacks shrink towards both ends
  kShortAhead,  ///< short sequences ahead of the longest
  kCuts,        ///< symmetric or asymmetric
  kSplit,       ///< how many backwards are split
};
inline constexpr std::array kSearchDirections = {SearchDirection::kPacks, SearchDirection::kTaper,
                                                 SearchDirection::kShortAhead,
                                                 SearchDirection::kCuts, SearchDirection::kSplit};

inline constexpr std::int32_t kSplitAll = 1 << 16;

/// What the first candidates have in common. Small MicroPacks at either end fill and drain the
/// pipeline sooner; short sequences ahead let the first backward start before the longest one has
/// passed.
struct FirstCandidates {
  bool asymmetric = true;
  double taper = 0.25;  ///< 1 = none
  int taper_per_stage = 2;
  int short_first = 4;
  std::int32_t split_per_stage = kSplitAll;  ///< where backwards may be split

  bool operator==(const FirstCandidates&) const = default;
};

/// Most MicroPacks of a pass that are tried, for each stage: so many, which lower the bubble below
/// 1%, or so many for as much as the longest sequence holds, so that those of a whole pipeline need
/// little memory beside it. The time to plan grows with them.
struct PackLimits {
  int per_stage = 256;
  int per_longest = 8;

  bool operator==(const PackLimits&) const = default;
};

/// Caps that candidates are scheduled under, as multiples of their own least memory.
struct SearchCaps {
  double tight = 1.1;   ///< judges candidates, beside no cap
  double medium = 2.0;  ///< likewise where backwards may be split, and in later rounds
  /// The ladder: 1, 1.04, 1.04², … about 2. Where backwards may be split, more memory still helps:
  /// on by 1.2 each to about 9.
  double rung = 1.04;
  int rungs = 18;
  double high_rung = 1.2;
  int high_rungs = 8;
  bool forwards_first = true;  ///< the ladder also takes forwards before backwards

  bool operator==(const SearchCaps&) const = default;
};

/// When merging is tried, and how far.
struct MergeSearch {
  /// Shares of the mean load above which a sequence is merged; the first stands for never.
  std::vector<double> above = {
      std::numeric_limits<double>::infinity(), 1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06, 0.03, 0.0};
  /// Merged variants that are searched even if one before them fits …
  std::size_t variants = 2;
  /// … where this share of what their heaviest unit takes so far would be an improvement: no more
  /// is usually found between the first look and the last.
  double promising = 0.99;
  /// Candidates of a variant's heaviest unit at first, and at most where none of them fits.
  int glance = 3;
  int long_glance = 8;
  /// Merging is tried where the longest sequence is this share of a replica's load …
  double heavy = 0.5;
  /// … or memory makes the heaviest unit so many times as long.
  double hindered = 1.01;
  bool levelled = true;  ///< whether replicas that whole sequences leave unlike are levelled
  double unlike = 0.01;  ///< share of a load that merging must win to be tried for it alone

  bool operator==(const MergeSearch&) const = default;
};

struct SearchOptions {
  std::vector<SearchDirection> directions{kSearchDirections.begin(),
                                          kSearchDirections.end()};  ///< in this order
  FirstCandidates first = {};
  PackLimits packs = {};
  SearchCaps caps = {};
  MergeSearch merging = {};
  /// Candidates beyond the first, on average over the units other than the heaviest.
  std::int64_t steps_per_unit = 1;
  /// Mixtures of the same two policies of recomputation, at most: each is a search.
  std::int32_t mixtures = 8;
  /// Steps of no more packs have their baselines list-scheduled under all caps: schedules differ
  /// under more caps the more packs there are, and each takes longer.
  std::size_t few_packs = 32;

  bool operator==(const SearchOptions&) const = default;
};

}  // namespace slimpack
