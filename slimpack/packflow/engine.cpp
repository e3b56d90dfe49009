#include "slimpack/packflow/engine.h"

#include <c10/util/Exception.h>

#include <exception>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/packflow/memory_tracker.h"
#include "slimpack/packflow/optimizer.h"
#include "slimpack/packflow/rank_step.h"
#include "slimpack/packflow/thread_group.h"

namespace slimpack {

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      threads_(options_.layout.stages(), options_.pin_threads),
      stages_(static_cast<std::size_t>(options_.layout.stages())) {
  std::vector<std::exception_ptr> failed(stages_.size());
  threads_.run([&](std::int32_t rank) {
    try {
      const StageId stage(rank);
      stages_[stage.index()] = make_stage_parameters(options_.shape, options_.dtype,
                                                     options_.layout, stage, options_.seed);
      if (rank == 0)
        rope_ = std::make_unique<Rope>(options_.shape, options_.dtype, options_.context);
    } catch (...) {
      failed[static_cast<std::size_t>(rank)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& cause : failed)
    if (cause) std::rethrow_exception(cause);
}

Engine::~Engine() = default;

StepResult Engine::run(const StepPlan& plan, const Schedule& schedule, const StepTokens& tokens,
                       const std::optional<Update>& update) {
  SLIMPACK_CHECK(plan.replicas.size() == 1 && plan.layout == options_.layout);
  const std::int32_t ranks = options_.layout.stages();
  ThreadGroup group(ranks, kChannelSlots);
  std::vector<RankResult> results(static_cast<std::size_t>(ranks));
  // Before any rank runs: a fast neighbour's first message already counts as an activation.
  std::vector<Bytes> resident;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    reset_peak(rank);
    resident.push_back(live_bytes(rank));
  }
  const auto start = monotonic_now();
  threads_.run([&](std::int32_t rank) {
    const StageId stage(rank);
    try {
      StageParameters& parameters = stages_[stage.index()];
      zero_gradients(parameters);
      const auto communicator = group.communicator(rank);
      StageStep tensors(options_.shape, options_.dtype, {rank == 0, rank == ranks - 1}, parameters,
                        *rope_, plan.replicas.front().packs, plan.lengths, tokens,
                        recompute_of_stage(plan, stage));
      results[stage.index()] =
          run_rank({options_, stage, parameters, tensors, schedule.stages[stage.index()],
                    *communicator, update, start, resident[stage.index()]});
    } catch (const c10::Error& e) {
      group.fail(std::make_exception_ptr(
          std::runtime_error(fmt::format("rank {}: {}", rank, e.what_without_backtrace()))));
    } catch (...) {
      group.fail(std::current_exception());
    }
  });
  if (group.cause()) std::rethrow_exception(group.cause());

  StepResult step;
  step.timeline.origin = "measured";
  step.timeline.ranks = ranks;
  step.gradient_norm = results.front().gradient_norm;
  step.loss =
      tokens.targets > 0 ? results.front().loss_sum / static_cast<double>(tokens.targets) : 0.0;
  for (RankResult& r : results) {
    step.timeline.spans.insert(step.timeline.spans.end(), r.spans.begin(), r.spans.end());
    step.timeline.memory.insert(step.timeline.memory.end(), r.memory.begin(), r.memory.end());
    step.timeline.peak_activation.push_back(r.peak_activation);
  }
  return step;
}

}  // namespace slimpack
