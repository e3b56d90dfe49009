#include "slimpack/packflow/engine.h"

#include <c10/util/Exception.h>

#include <exception>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/packflow/memory_tracker.h"
#include "slimpack/packflow/optimizer.h"
#include "slimpack/packflow/rank_step.h"
#include "slimpack/packflow/thread_world.h"

namespace slimpack {

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      threads_(options_.grid().ranks(), options_.pin_threads),
      parameters_(static_cast<std::size_t>(options_.grid().ranks())) {
  const RankGrid grid = options_.grid();
  std::vector<std::exception_ptr> failed(parameters_.size());
  threads_.run([&](std::int32_t rank) {
    const auto r = static_cast<std::size_t>(rank);
    try {
      parameters_[r] = make_stage_parameters(options_.shape, options_.dtype, options_.layout, grid,
                                             grid.place(rank), options_.seed);
      if (rank == 0)
        rope_ = std::make_unique<Rope>(options_.shape, options_.dtype, options_.context);
    } catch (...) {
      failed[r] = std::current_exception();
    }
  });
  for (const std::exception_ptr& cause : failed)
    if (cause) std::rethrow_exception(cause);
}

Engine::~Engine() = default;

namespace {

StepResult joined(std::vector<RankResult> ranks, const StepTokens& tokens, ClockKind clock) {
  StepResult step;
  step.timeline.origin = clock == ClockKind::kWall ? "measured" : "measured in virtual time";
  step.timeline.ranks = static_cast<std::int32_t>(ranks.size());
  step.gradient_norm = ranks.front().gradient_norm;
  step.loss =
      tokens.targets > 0 ? ranks.front().loss_sum / static_cast<double>(tokens.targets) : 0.0;
  for (const RankResult& r : ranks) {
    step.timeline.spans.insert(step.timeline.spans.end(), r.spans.begin(), r.spans.end());
    step.timeline.memory.insert(step.timeline.memory.end(), r.memory.begin(), r.memory.end());
    step.timeline.peak_activation.push_back(r.peak_activation);
  }
  return step;
}

}  // namespace

StepResult Engine::run(const StepPlan& plan, std::span<const Schedule> schedules,
                       const StepTokens& tokens, const std::optional<Update>& update) {
  const RankGrid grid = options_.grid();
  SLIMPACK_CHECK(plan.layout == options_.layout && schedules.size() == plan.replicas.size() &&
                 plan.replicas.size() == static_cast<std::size_t>(grid.replicas));
  ThreadWorld world(grid, kChannelSlots);
  std::vector<RankResult> results(parameters_.size());
  // Before any rank runs: a fast neighbour's first message already counts as an activation.
  std::vector<Bytes> resident;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    reset_peak(rank);
    resident.push_back(live_bytes(rank));
  }
  ProcessorTurns turns;
  const auto start = monotonic_now();
  threads_.run([&](std::int32_t rank) {
    const auto r = static_cast<std::size_t>(rank);
    const RankPlace place = grid.place(rank);
    try {
      const PackPlan& packs = plan.replicas[place.replica.index()].packs;
      RankClock clock(options_.clock, start, &turns);
      auto communicator = world.communicator(rank, clock);
      if (options_.wrap_communicator)
        communicator = options_.wrap_communicator(rank, std::move(communicator));
      zero_gradients(parameters_[r]);
      StageStep tensors(options_.shape, options_.dtype,
                        {place.stage.value() == 0,
                         place.stage.value() == grid.stages - 1,
                         {place.replica, grid.tensor, place.tensor}},
                        parameters_[r], *rope_, packs, plan.lengths, tokens,
                        recompute_of_stage(plan, place.stage), communicator.get());
      results[r] = run_rank({options_, rank, parameters_[r], tensors, packs,
                             schedules[place.replica.index()].stages[place.stage.index()],
                             *communicator, update, clock, resident[r]});
    } catch (const c10::Error& e) {
      world.fail(std::make_exception_ptr(
          std::runtime_error(fmt::format("rank {}: {}", rank, e.what_without_backtrace()))));
    } catch (...) {
      world.fail(std::current_exception());
    }
  });
  if (world.cause()) std::rethrow_exception(world.cause());
  return joined(std::move(results), tokens, options_.clock);
}

}  // namespace slimpack
