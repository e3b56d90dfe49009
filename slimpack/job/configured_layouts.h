// The layouts of a run: those that its configuration leaves to the layout search, and that of its
// layers and stages over its ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/layout_search.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Files of measured costs by tensor parallelism.
using CostFiles = std::map<std::int32_t, std::filesystem::path>;

/// The files by the tp that they were measured with. Throws InvalidInput as cost_from_json, and for
/// two files of one tp.
[[nodiscard]] CostFiles cost_files(const std::vector<std::filesystem::path>& files);

/// Every tp × pp × dp of so many ranks: tp that divides the ranks of a node, heads and experts, or
/// for which there are costs; and any number of stages that the model has layers for. Throws
/// InvalidInput for less than one rank, and if there is none.
[[nodiscard]] std::vector<ParallelGrid> layouts_of(std::int64_t ranks, const RunConfig& config,
                                                   const Decoder& shape, const CostFiles& files);

/// The `layouts` that most people would try first: the widest tp with one stage and with four,
/// after Narayanan et al. 2021, takeaway 1 (tp up to the GPUs of a node, stages to reach further),
/// and replicas alone.
[[nodiscard]] std::vector<ParallelGrid> usual_layouts(const std::vector<ParallelGrid>& layouts);

/// Layouts of the same ranks with one thing changed that `config` leaves open, the runtime of these
/// costs can do and `grid` has not changed before: parallel.zero, where it is 1; and with several
/// stages the spread vocabulary, and two or four stages on each rank with and without it.
[[nodiscard]] std::vector<ParallelGrid> small_changes(const ParallelGrid& grid,
                                                      const RunConfig& config, const Costs& cost);

/// The question for these steps. Layers are shared out to stages for the first step.
[[nodiscard]] LayoutQuestion configured_layouts(const RunConfig& config, const Decoder& shape,
                                                std::vector<SequenceLengths> steps,
                                                std::vector<ParallelGrid> layouts,
                                                const CostFiles& files);

/// Balanced for these lengths, with parallel.stages_per_rank stages on each rank; where the planner
/// chooses, one layout for each number that it tries: 1, 2, 4 and 8, as far as the layers go.
[[nodiscard]] std::vector<StageLayout> layouts_to_try(const RunConfig& config, const Costs& cost,
                                                      const SequenceLengths& lengths);

/// The layout of layouts_to_try whose step is the shortest. The first where none fits.
/// Cost: plans the step for each, if there are several.
[[nodiscard]] StageLayout chosen_layout(const RunConfig& config, const Costs& cost,
                                        const SequenceLengths& lengths, const Choices& choices);

}  // namespace slimpack
