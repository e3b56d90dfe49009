// The parts of slimpack._planner: planner, simulator, baselines and readers, without torch.
#pragma once

#include <nanobind/nanobind.h>

namespace slimpack {

void bind_base(
    nanobind::module_& m);  ///< checksums, checkpoint folders, figures for people, OutputLock
void bind_data(nanobind::module_& m);           ///< length lists, datasets
void bind_sampler(nanobind::module_& m);        ///< Sampler
void bind_plans(nanobind::module_& m);          ///< StepPlan with its MicroPacks; Timeline
void bind_micro_batches(nanobind::module_& m);  ///< balanced_micro_batches
void bind_costs(nanobind::module_& m);          ///< fits and cost files, for profiles
void bind_planning(nanobind::module_& m);       ///< Planning: plan, compare, fit, layouts; sweep
void bind_run(nanobind::module_& m);            ///< RunLimits, metrics.jsonl

}  // namespace slimpack
