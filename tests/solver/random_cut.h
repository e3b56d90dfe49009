// Random ways to run a random job: sequences anywhere, cut anyhow.
#pragma once

#include <limits>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/solver/assign.h"
#include "slimpack/solver/unit_cut.h"
#include "tests/solver/random_job.h"
#include "tests/support/bound_costs.h"

namespace slimpack::testing {

inline std::int32_t random_stage(Rng& rng, const RandomJob& job) {
  return static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(job.layout.stages())));
}

/// Costs of a stage, by group.
inline UnitCost unit_cost(const RandomJob& job, std::int32_t stage) {
  UnitCost cost;
  for (std::int32_t group = 1; group <= job.most_merged; group *= 2)
    for (const Pass pass : kWholePasses)
      (pass == Pass::kForward ? cost.forward : cost.backward)
          .push_back(stage_cost(job.cost, job.layout, StageId(stage), pass, group));
  return cost;
}

inline Assignment random_assignment(Rng& rng, const RandomJob& job) {
  const UnitCost cost = unit_cost(job, random_stage(rng, job));
  std::vector<double> speed;
  for (std::size_t r = 0; r < static_cast<std::size_t>(job.replicas); ++r)
    speed.push_back(job.speed.empty() ? 1.0 : job.speed[r].front());
  const double thresholds[] = {std::numeric_limits<double>::infinity(), 1.0, 0.7, 0.25, 0.03, 0.0};
  return assign({job.lengths, speed, cost.backward}, thresholds[rng.below(6)]);
}

inline UnitCutOptions random_options(Rng& rng, Tokens granularity) {
  UnitCutOptions options;
  options.fluid.packs = 1 + static_cast<int>(rng.below(std::uint64_t{2} << rng.below(6)));
  options.fluid.granularity = granularity;
  const auto half = static_cast<std::uint64_t>(options.fluid.packs / 2 + 1);
  options.fluid.taper_front = static_cast<int>(rng.below(half));
  options.fluid.taper_back = static_cast<int>(rng.below(half));
  options.fluid.taper = 0.1 + 0.9 * rng.uniform();
  options.fluid.asymmetric = rng.below(3) > 0;
  options.fluid.fill = rng.below(2) == 0;
  options.short_first = static_cast<int>(rng.below(5));
  return options;
}

struct JobCut {
  StepPlan plan;
  std::vector<Unit> units;
  std::vector<std::vector<PackPlan>> packs;  ///< by unit and its replicas, ids of their own
};

inline JobCut random_cut(Rng& rng, const RandomJob& job) {
  JobCut cut;
  cut.units = units_of(job.lengths, random_assignment(rng, job));
  cut.plan.lengths = job.lengths;
  cut.plan.layout = job.layout;
  cut.plan.replicas.resize(static_cast<std::size_t>(job.replicas));
  for (const Unit& unit : cut.units) {
    cut.packs.push_back(cut_unit(unit, unit_cost(job, random_stage(rng, job)),
                                 random_options(rng, job.granularity)));
    for (std::size_t i = 0; i < unit.replicas.size(); ++i) {
      const ReplicaShare& share = unit.replicas[i];
      PackPlan packs = cut.packs.back()[i];
      for (auto* pass : {&packs.forward, &packs.backward})
        for (MicroPack& pack : *pass)
          for (Slice& slice : pack.slices) slice.sequence = share.sequences[slice.sequence.index()];
      cut.plan.replicas[share.replica.index()] = {share.sequences, std::move(packs)};
    }
  }
  return cut;
}

}  // namespace slimpack::testing
