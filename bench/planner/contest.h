// A contest: one step by our planner and by every baseline, tuned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/rated_step.h"

namespace slimpack::bench {

/// One planner's step in a contest.
struct Contender {
  std::string planner;
  std::string tuning;     ///< of a baseline
  std::string recompute;  ///< what its layers compute again
  std::string adopted;    ///< of ours: the baseline whose plan it took; empty = none
  bool fits = false;      ///< there is a step, and it keeps the memory cap
  Nanos makespan;
  double bubble = 0;
  std::int32_t merged = 1;  ///< the most replicas that run a MicroPack together
  double planning_seconds = 0;
};

struct Contest {
  Contender ours;
  std::vector<Contender> others;

  /// The fastest other that fits; null if none does.
  [[nodiscard]] const Contender* best_other() const;
  /// How many times as fast ours is as the best other; 0 unless both fit.
  [[nodiscard]] double speedup() const;
  /// The number of others that are faster.
  [[nodiscard]] int behind() const;
};

/// `ours`, if not null, gets our step.
[[nodiscard]] Contest contest(const StepJob& job, RatedStep* ours = nullptr);
[[nodiscard]] nlohmann::json to_json(const Contender& contender);

/// TRL and axolotl train with FSDP: each of `grid`'s ranks has packs of its own and a share of the
/// model (docs/baselines.md). The better of their packers, tuned; nullopt if nothing fits. That
/// weights travel while ranks compute, and that no rank waits for another between packs, is taken
/// for granted, in its favour. REQUIRES: tp 1 and pp 1.
[[nodiscard]] std::optional<Contender> fsdp_contender(std::string_view model, const Grid& grid,
                                                      const SequenceLengths& lengths,
                                                      Tokens context);

/// Tables say what binds where our step is less than so many times as fast as the other.
inline constexpr double kClearlyFaster = 1.1;

/// In few words:
///  - "work" or "longest document's chain": no plan is clearly faster than `other`, because of that
///    term of the lower bound;
///  - "memory": without a cap our step would be 3% shorter or more;
///  - else the larger of "overheads", what MicroPacks and slices cost by themselves, and "fill and
///    drain", what ranks wait; with its share of the step.
/// Cost: a plan without a cap. REQUIRES: ours has a step.
[[nodiscard]] std::string what_binds(const StepJob& job, const RatedStep& ours, Nanos other);

/// The lists of parts baselines_tuned and layouts.
inline constexpr std::string_view kLists[] = {"real", "log-normal", "Pareto"};
[[nodiscard]] SequenceLengths list_lengths(std::string_view list, const BenchOptions& options,
                                           std::size_t count, Tokens context);

}  // namespace slimpack::bench
