#include "slimpack/job/chosen_layout.h"

#include <iterator>
#include <optional>
#include <utility>

#include "slimpack/cost/abilities.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/planner/baseline_search.h"

namespace slimpack {
namespace {

/// By overheads alone, without links, steps go on getting shorter up to a stage for each layer.
constexpr std::int32_t kStagesPerRank[] = {1, 2, 4, 8};

}  // namespace

std::vector<StageLayout> layouts_to_try(const RunConfig& config, const Costs& cost,
                                        const SequenceLengths& lengths) {
  const ParallelConfig& p = config.parallel;
  std::vector<std::int32_t> numbers{p.stages_per_rank};
  if (p.chooses_stages) numbers.assign(std::begin(kStagesPerRank), std::end(kStagesPerRank));
  std::vector<bool> spreads{p.spread_vocabulary};
  if (p.chooses_vocabulary && p.pp > 1 && abilities(cost).spreads_vocabulary)
    spreads = {false, true};
  std::vector<StageLayout> layouts;
  for (const std::int32_t stages : numbers)
    if (!p.chooses_stages || stages == 1 ||
        (p.pp > 1 && std::int64_t{p.pp} * stages <= cost.shape.num_layers()))
      for (const bool spread : spreads)
        layouts.push_back(balanced_layout(cost, lengths, p.pp, stages, spread,
                                          LastStage::kBothPasses, p.placement));
  return layouts;
}

StageLayout chosen_layout(const RunConfig& config, const Costs& cost,
                          const SequenceLengths& lengths, const Choices& choices) {
  std::vector<StageLayout> layouts = layouts_to_try(config, cost, lengths);
  if (config.parallel.chooses_stages && !interleaves(choices.planner))
    std::erase_if(layouts,
                  [](const StageLayout& layout) { return layout.placement.stages_per_rank() > 1; });
  std::size_t best = 0;
  std::optional<Nanos> shortest;
  for (std::size_t i = 0; layouts.size() > 1 && i < layouts.size(); ++i) {
    if (!states_fit(config, cost, layouts[i])) continue;
    const PlanOutcome outcome =
        plan_step({configured_job(config, cost, layouts[i]), lengths, choices, cost});
    if (!outcome.step || (shortest && outcome.step->prediction.makespan >= *shortest)) continue;
    shortest = outcome.step->prediction.makespan;
    best = i;
  }
  return std::move(layouts[best]);
}

}  // namespace slimpack
