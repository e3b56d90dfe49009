// Predicted and measured peaks of whole steps.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "slimpack/sim/simulate.h"
#include "tests/packflow/step/ordered_ranks.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/sample.h"

namespace slimpack::testing {

/// A step of any number of replicas; cost.tp ranks share each stage.
struct GridStep {
  Costs cost;  ///< before recomputation
  StepPlan plan;
  std::vector<Schedule> schedules;  ///< by replica

  [[nodiscard]] SimulationResult predict(Counted counted = Counted::kAll) const {
    const StageTable table = stage_table(cost, plan.layout, plan.recompute);
    std::vector<ReplicaPacks> tasks;
    for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
      const PackPlan& packs = plan.replicas[r].packs;
      tasks.push_back(
          {packs, table.times(packs), table.bytes(packs, plan.lengths, counted, ReplicaId(r))});
      table.add_exchanges(tasks.back(), schedules[tasks.size() - 1].exchanges);
    }
    return simulate(tasks, schedules);
  }
};

inline GridStep grid_step(const SmallStep& step) {
  return {step.cost, step.plan, {step.schedule}};
}

/// Lowest and highest ratio of predicted to measured peaks, of the steps in the sample.
struct Ratios {
  Sample sample;
  double lowest = 1e9, highest = 0;
  int peaks = 0;

  void add(double ratio) {
    ++peaks;
    lowest = std::min(lowest, ratio);
    highest = std::max(highest, ratio);
  }
  void print(const std::string& what) const {
    EXPECT_GT(peaks, 0) << what << ": every peak was too small to be compared";
    fmt::print("{}: predicted / measured from {:.3f} to {:.3f} in {} peaks\n", what, lowest,
               highest, peaks);
  }
};

/// A ratio has to lie between these bounds.
struct Bounds {
  double lowest, highest;
};

/// Compares every stage, by the one of its `tp` ranks that holds most; peaks that are predicted
/// below `least` do not count.
inline void expect_ratios(const SimulationResult& predicted, const std::vector<Bytes>& measured,
                          std::int32_t tp, const std::string& what, Bytes least,
                          const Bounds& bounds, Ratios& ratios) {
  for (std::size_t s = 0; s < predicted.peak_activation.size(); ++s) {
    const Bytes peak = predicted.peak_activation[s];
    if (peak < least) continue;
    const auto first = measured.begin() + static_cast<std::ptrdiff_t>(s) * tp;
    const Bytes most = *std::max_element(first, first + tp);
    const double ratio = static_cast<double>(peak.count()) / static_cast<double>(most.count());
    EXPECT_TRUE(ratio > bounds.lowest && ratio < bounds.highest)
        << what << " stage " << s << ": predicted " << peak.count() << ", measured " << most.count()
        << ", " << ratio;
    ratios.add(ratio);
  }
}

/// Runs the step in the simulated order and compares.
inline void compare(const GridStep& step, const std::string& what, Bytes least,
                    const Bounds& bounds, Ratios& ratios) {
  if (!ratios.sample.next()) return;
  Rng rng(3);
  const StepTokens tokens = random_tokens(rng, step.cost.shape, step.plan.lengths);
  const SimulationResult predicted = step.predict();
  const std::vector<Bytes> measured =
      OrderedRanks(step.cost, step.plan, step.schedules, tokens).run(predicted.timeline.spans);
  expect_ratios(predicted, measured, step.cost.tp, what, least, bounds, ratios);
}

}  // namespace slimpack::testing
