#include "slimpack/job/configured_layouts.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/baseline_search.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int32_t kMoreStages[] = {2, 4};  ///< of a rank, beside 1

bool tp_allowed(std::int32_t tp, const RunConfig& config, const Decoder& shape,
                const CostFiles& files) {
  if (!files.empty()) return files.contains(tp);
  if (!config.cost.file.empty()) return tp == config.parallel.tp;
  return config.hardware && config.hardware->ranks_per_node % tp == 0 && shape.splits_into(tp);
}

}  // namespace

CostFiles cost_files(const std::vector<std::filesystem::path>& files) {
  CostFiles by_tp;
  for (const std::filesystem::path& file : files) {
    const Costs cost = cost_from_json(read_file(file, "cost file"), file.string());
    const auto [known, is_new] = by_tp.emplace(cost.tp, file);
    if (!is_new)
      invalid_input("{} and {} were both measured with tp {}; give one file for each tp",
                    known->second.string(), file.string(), cost.tp);
  }
  return by_tp;
}

std::vector<ParallelGrid> layouts_of(std::int64_t ranks, const RunConfig& config,
                                     const Decoder& shape, const CostFiles& files) {
  if (ranks < 1 || ranks > kMostRanks)
    invalid_input("--ranks is {}, must be 1 to {}", ranks, kMostRanks);
  std::vector<ParallelGrid> layouts;
  const auto all = static_cast<std::int32_t>(ranks);
  const auto most_stages = static_cast<std::int32_t>(std::min(ranks, shape.num_layers()));
  for (std::int32_t tp = 1; tp <= all; ++tp) {
    if (all % tp != 0 || !tp_allowed(tp, config, shape, files)) continue;
    for (std::int32_t pp = 1; pp <= most_stages; ++pp)
      if (all / tp % pp == 0)
        layouts.push_back({.pp = pp, .dp = all / tp / pp, .tp = tp, .zero = config.parallel.zero});
  }
  if (layouts.empty())
    invalid_input("{} ranks have no layout: costs are known for no tp that divides them", ranks);
  return layouts;
}

std::vector<ParallelGrid> usual_layouts(const std::vector<ParallelGrid>& layouts) {
  const std::int32_t widest = std::ranges::max(layouts, {}, &ParallelGrid::tp).tp;
  std::vector<ParallelGrid> usual;
  for (const ParallelGrid& grid : layouts)
    if ((grid.tp == widest && (grid.pp == 1 || grid.pp == 4)) || (grid.tp == 1 && grid.pp == 1))
      usual.push_back(grid);
  return usual;
}

std::vector<ParallelGrid> small_changes(const ParallelGrid& grid, const RunConfig& config,
                                        const Costs& cost) {
  const Abilities able = abilities(cost);
  std::vector<ParallelGrid> changes;
  const auto add = [&](auto edit) {
    changes.push_back(grid);
    edit(changes.back());
  };
  if (grid.dp > 1 && config.parallel.zero == 1 && grid.zero == 1)
    for (const std::int32_t zero : able.zero)
      if (zero != 1) add([&](ParallelGrid& g) { g.zero = zero; });
  if (grid.pp == 1) return changes;
  std::vector<bool> spreads{false};
  if (able.spreads_vocabulary) {
    spreads.push_back(true);
    if (!grid.spread_vocabulary) add([](ParallelGrid& g) { g.spread_vocabulary = true; });
  }
  if (config.plan.planner != PlannerKind::kSlimpack || grid.stages_per_rank > 1) return changes;
  for (const std::int32_t stages : kMoreStages)
    if (std::int64_t{grid.pp} * stages <= cost.shape.num_layers())
      for (const bool spread : spreads)
        add([&](ParallelGrid& g) {
          g.stages_per_rank = stages;
          g.spread_vocabulary = spread;
        });
  return changes;
}

LayoutQuestion configured_layouts(const RunConfig& config, const Decoder& shape,
                                  std::vector<SequenceLengths> steps,
                                  std::vector<ParallelGrid> layouts, const CostFiles& files) {
  LayoutQuestion question;
  question.usual = usual_layouts(layouts);
  question.grids = std::move(layouts);
  const auto on = [config, files](const ParallelGrid& grid) {
    RunConfig changed = config;
    static_cast<ParallelGrid&>(changed.parallel) = grid;
    changed.parallel.speed.clear();
    if (const auto file = files.find(grid.tp); file != files.end())
      changed.cost.file = file->second;
    return changed;
  };
  question.job = [on, shape,
                  lengths = steps.front()](const ParallelGrid& grid) -> std::optional<LayoutJob> {
    const RunConfig changed = on(grid);
    Costs cost = required_cost(changed, shape, "the layout");
    StageLayout layout =
        balanced_layout(cost, lengths, grid.pp, grid.stages_per_rank, grid.spread_vocabulary);
    if (!states_fit(changed, cost, layout)) return std::nullopt;
    Job job = configured_job(changed, cost, std::move(layout));
    Choices choices = configured_choices(changed, cost);
    const bool own_cap = changed.plan.memory_cap || changed.plan.unlimited_memory;
    const std::int64_t reserved = own_cap ? 0 : reserved_percent(cost);
    return LayoutJob{std::move(cost), std::move(job), std::move(choices), reserved};
  };
  question.changes = [on, shape](const ParallelGrid& grid) {
    const RunConfig changed = on(grid);
    return small_changes(grid, changed, required_cost(changed, shape, "the layout"));
  };
  question.tries_split =
      config.plan.backward == BackwardKind::kWhole && config.plan.planner == PlannerKind::kSlimpack;
  question.steps = std::move(steps);
  return question;
}

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
