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

/// FirstCandidates::split_per_stage of every backward.
inline constexpr std::int32_t kSplitAll = 1 << 16;

/// What the first candidates have in common. Small MicroPacks at both ends fill and drain the
/// pipeline sooner. With short sequences ahead, the first backward starts before the longest
/// sequence has passed.
struct FirstCandidates {
  int packs = 0;  ///< MicroPacks of a pass; 0 = one for each stage, two, four, …
  bool asymmetric = true;
  bool fill = false;
  double taper = 0.25;  ///< 1 = none
  int taper_per_stage = 2;
  int short_first = 4;
  std::int32_t split_per_stage = kSplitAll;  ///< backwards, where they may be split

  bool operator==(const FirstCandidates&) const = default;
};

/// The most MicroPacks of a pass that are tried, for each stage of the pipeline: the larger of two
/// limits. The time to plan grows with them.
struct PackLimits {
  int per_stage = 256;  ///< lowers the bubble below 1%
  /// For as many tokens as the longest sequence has. The MicroPacks in a pipeline then need little
  /// memory beside that sequence.
  int per_longest = 8;

  bool operator==(const PackLimits&) const = default;
};

/// Memory caps for schedules of a candidate, as multiples of its own least memory.
struct SearchCaps {
  double tight = 1.1;   ///< candidates are judged under it and without a cap
  double medium = 2.0;  ///< and under this where backwards may be split, and in later rounds
  /// The ladder: 1, 1.04, 1.04², … about 2, then on in steps of 1.2 to about 9: more memory still
  /// helps where backwards are split, and where sequences are short of many in flight.
  double rung = 1.04;
  int rungs = 18;
  double high_rung = 1.2;
  int high_rungs = 8;
  bool forwards_first = true;  ///< the ladder also takes forwards before backwards

  bool operator==(const SearchCaps&) const = default;
};

/// When merging is tried, and how far.
struct MergeSearch {
  /// A sequence is merged above so many times the least load (assign.h). Each is tried; the first
  /// stands for "never".
  std::vector<double> above = {std::numeric_limits<double>::infinity(),
                               2.0,
                               1.5,
                               1.2,
                               1.0,
                               0.7,
                               0.5,
                               0.35,
                               0.25,
                               0.12,
                               0.06,
                               0.03,
                               0.0};
  std::size_t variants = 2;  ///< merged variants that are searched although another one fits
  /// They are searched only where this share of their heaviest unit's time would be an improvement:
  /// a search seldom gains more after the first look.
  double promising = 0.99;
  int glance = 3;       ///< candidates of the first look at a variant's heaviest unit
  int long_glance = 8;  ///< the most of them where none fits
  double heavy = 0.5;  ///< merging is tried where a sequence is more than this share of a load, …
  double hindered = 1.01;  ///< … or where memory makes the heaviest unit this many times as long
  bool levelled = true;    ///< whether levelled() is tried where whole sequences leave loads unlike
  double unlike = 0.01;    ///< share of a load that each merge of levelled() has to take off

  bool operator==(const MergeSearch&) const = default;
};

/// The program plans with the defaults. bench/ablation changes them to say what each is worth
/// (docs/ablation.md); `slimpack sweep` keeps some choices to a value. Switches that nothing else
/// turns off are the entries of `directions`, first.asymmetric, first.fill, caps.forwards_first,
/// merging.levelled and baselines. A choice keeps its value from `first` if its direction is not
/// searched and no baseline is tried.
struct SearchOptions {
  std::vector<SearchDirection> directions{kSearchDirections.begin(),
                                          kSearchDirections.end()};  ///< in this order
  FirstCandidates first = {};
  PackLimits packs = {};
  SearchCaps caps = {};
  MergeSearch merging = {};
  /// Candidates beyond the first, on average over all units but the heaviest.
  std::int64_t steps_per_unit = 1;
  /// The most mixtures of the same two policies of recomputation. Each is a search.
  std::int32_t mixtures = 8;
  /// List-scheduled baselines of one replica with no more packs are tried under every cap that
  /// makes a difference. With more packs there are more such caps, and each schedule takes longer.
  std::size_t few_packs = 32;
  bool baselines = true;  ///< whether steps of baselines are candidates

  bool operator==(const SearchOptions&) const = default;
};

}  // namespace slimpack
