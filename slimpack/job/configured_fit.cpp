#include "slimpack/job/configured_fit.h"

#include <fmt/format.h>

#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"

namespace slimpack {
namespace {

FitJob wished_job(const RunConfig& config, const Costs& cost) {
  return {.grid = config.parallel,
          .choices = {.planner = config.plan.planner,
                      .granularity = config.plan.granularity,
                      .most_merged = config.plan.most_merged,
                      .solver = config.plan.solver,
                      .cuts = config.plan.cuts,
                      .recompute = allowed_recomputations(config, cost),
                      .mixed_recompute = !config.plan.recompute},
          .memory_cap = config.plan.memory_cap};
}

}  // namespace

FitQuestion configured_fit(const StepPlanning& planning) {
  const RunConfig& config = planning.config;
  FitQuestion question;
  question.cost = [config, shape = planning.model.shape](const ParallelGrid& grid) {
    RunConfig changed = config;
    static_cast<ParallelGrid&>(changed.parallel) = grid;
    return required_cost(changed, shape, "the changed job");
  };
  question.job = wished_job(config, planning.cost);
  question.most_tp = config.cost.file.empty() && config.hardware ? config.hardware->ranks_per_node
                                                                 : config.parallel.tp;
  question.speed = config.parallel.speed;
  question.context = config.data.context;
  return question;
}

std::string fixed_tp_text(const RunConfig& config) {
  if (config.cost.file.empty()) return "";
  return fmt::format("{}: measured with tp {}, so tp is not changed", config.cost.file.string(),
                     config.parallel.tp);
}

}  // namespace slimpack
