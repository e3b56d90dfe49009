#include "slimpack/packflow/step/engine.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_threads.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/thread_world.h"
#include "slimpack/packflow/step/rank_step.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/packflow/step/step_inputs.h"

namespace slimpack {
namespace {

constexpr Tokens kWarmUpLength(32);
constexpr std::size_t kWarmUpDocuments = 2;  // a kernel of its own takes several

PackPlan one_pack(Tokens length) {
  MicroPack pack;
  for (std::size_t s = 0; s < kWarmUpDocuments; ++s)
    pack.slices.push_back({SequenceId(static_cast<std::int32_t>(s)), Tokens(0), length});
  return {.forward = {pack}, .backward = {pack}};
}

/// Runs one small MicroPack forward and backward through each of a rank's stages, without other
/// ranks, and waits for the device. A kernel's first use may wait for all work on the device, where
/// in a step a message may wait for that use; libraries choose and load kernels then
/// (device/device.h). Afterwards gradients are zero. Changes no parameter and draws no random
/// number. REQUIRES: no CPU.
void warm_up(const EngineOptions& options, const RankPlace& place,
             std::span<StageParameters> parameters, const Rope& rope) {
  const Tokens length = std::min(kWarmUpLength, options.context);
  if (length < Tokens(2)) return;
  const RankGrid grid = options.grid();
  // A rank's part of the layers runs like a model of its own.
  const Decoder part = tensor_parallel_part(options.shape, grid.tensor);
  const PackPlan packs = one_pack(length);
  const SequenceLengths lengths(kWarmUpDocuments, length);
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(length.count()), 0);
  const StepTokens tokens = make_step_tokens({kWarmUpDocuments, zeros}, part.vocab_size);
  const at::Tensor rows_TH =
      at::zeros({static_cast<std::int64_t>(kWarmUpDocuments) * length.count(), part.hidden_size()},
                at::dtype(compute_type(options.dtype)).device(options.device));
  for (std::size_t s = 0; s < parameters.size(); ++s) {
    const StageId stage_id = grid.placement.stage(place.pipeline, static_cast<std::int32_t>(s));
    const bool whole = !grid.spread_vocabulary;  // else embedding and head need the other ranks
    const StagePlace alone{.first = whole && stage_id.value() == 0,
                           .last = whole && stage_id.value() == grid.stages() - 1,
                           .first_layer = options.layout.layer_begin[stage_id.index()]};
    const StepInputs inputs(reader_of(part, alone, parameters[s]), packs, tokens);
    StageStep stage(part, alone, parameters[s], rope, packs, lengths, inputs);
    static_cast<void>(stage.forward(PackId(0), alone.first ? at::Tensor() : rows_TH));
    static_cast<void>(stage.backward(PackId(0), alone.last ? at::Tensor() : rows_TH));
  }
  zero_gradients(parameters);
  finish_queue(options.device);
}

std::vector<std::int32_t> ranks_here(const EngineOptions& options) {
  if (options.process != nullptr) return options.process->ranks();
  std::vector<std::int32_t> all(static_cast<std::size_t>(options.grid().ranks()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void require_device(const StepPlan& plan, at::Device device) {
  const std::optional<std::size_t> layer = first_offloading(plan.recompute);
  if (device.is_cpu() && layer)
    invalid_input(
        "the plan offloads rows of layer {}, but the run's device is a CPU, where they lie in host "
        "memory already; plan with another plan.recompute or train with train.device = \"cuda\"",
        *layer);
}

void require_exchanges(std::span<const LoweredSchedule> schedules, const RankGrid& grid) {
  for (const LoweredSchedule& schedule : schedules)
    if (!schedule.exchanges.empty() && !grid.exchange_context)
      invalid_input(
          "the schedule exchanges attention, for example that of {}, but parallel.exchange_context "
          "is false; set it to true, or plan again without it",
          to_string(schedule.exchanges.front().giver));
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      ranks_(ranks_here(options_)),
      threads_(static_cast<std::int32_t>(ranks_.size()), options_.pin_threads, options_.device,
               options_.deterministic),
      parameters_(ranks_.size()) {
  const RankGrid grid = options_.grid();
  on_threads([&](std::size_t t) {
    const RankPlace place = grid.place(ranks_[t]);
    for (const StageId s : grid.placement.stages_of(place.pipeline))
      parameters_[t].push_back(make_stage_parameters(options_.shape, options_.dtype,
                                                     options_.layout, grid, place, s, options_.seed,
                                                     options_.device));
    if (t == 0)
      rope_ =
          std::make_unique<Rope>(options_.shape, options_.dtype, options_.context, options_.device);
    // A kernel that is loaded in a step would wait for all work on the device.
    KernelChoice kernel = slimpack::attention_kernel(
        options_.device, options_.dtype,
        attention_heads(tensor_parallel_part(options_.shape.kinds.front(), options_.tensor)));
    if (t == 0) attention_kernel_ = std::move(kernel);
    finish_queue(options_.device);  // other ranks read the table
  });
  // Ranks that are processes connect when the first step begins, after this.
  if (!options_.device.is_cpu())
    on_threads(
        [&](std::size_t t) { warm_up(options_, grid.place(ranks_[t]), parameters_[t], *rope_); });
}

void Engine::on_threads(const std::function<void(std::size_t thread)>& work) {
  std::vector<std::exception_ptr> failed(parameters_.size());
  threads_.run([&](std::int32_t thread) {
    const auto t = static_cast<std::size_t>(thread);
    try {
      work(t);
    } catch (...) {
      failed[t] = failure_of(ranks_[t]);
    }
  });
  for (const std::exception_ptr& cause : failed)
    if (cause) std::rethrow_exception(cause);
}

Engine::~Engine() = default;

std::unique_ptr<World> Engine::make_world() const {
  if (options_.process != nullptr) return options_.process->make_world();
  return std::make_unique<ThreadWorld>(options_.grid(), kChannelSlots, options_.links,
                                       options_.should_stop);
}

std::span<StageParameters> Engine::parameters(std::int32_t rank) {
  const auto it = std::ranges::find(ranks_, rank);
  SLIMPACK_CHECK(it != ranks_.end(), "another process runs rank {}", rank);
  return parameters_[static_cast<std::size_t>(it - ranks_.begin())];
}

void Engine::on_ranks(const RankWork& work) {
  on_ranks_by(options_.clock, work);
}

void Engine::on_ranks_by(ClockKind kind, const RankWork& work) {
  const std::unique_ptr<World> world = make_world();
  ProcessorTurns turns;
  const auto start = monotonic_now();
  threads_.run([&](std::int32_t thread) {
    const std::int32_t rank = ranks_[static_cast<std::size_t>(thread)];
    try {
      RankClock clock(kind, start, &turns, options_.device);
      auto communicator = world->communicator(rank, clock);
      if (options_.hooks.wrap_communicator)
        communicator = options_.hooks.wrap_communicator(rank, std::move(communicator));
      work(rank, *communicator, clock);
      communicator->settle();
    } catch (...) {
      world->fail(failure_of(rank));
    }
  });
  if (world->cause()) std::rethrow_exception(world->cause());
}

void Engine::on_step_ranks(const StepPlan& plan, std::span<const LoweredSchedule> schedules,
                           const StepTokens& tokens, const std::optional<OptimizerUpdate>& update,
                           ClockKind kind, const std::function<void(const RankStep&)>& work) {
  const RankGrid grid = options_.grid();
  SLIMPACK_CHECK(plan.layout == options_.layout && schedules.size() == plan.replicas.size() &&
                 plan.replicas.size() == static_cast<std::size_t>(grid.replicas));
  require_device(plan, options_.device);
  require_exchanges(schedules, grid);
  std::vector<std::optional<StepInputs>> inputs(ranks_.size());
  on_threads([&](std::size_t t) {
    const RankPlace place = grid.place(ranks_[t]);
    const std::size_t replica = place.replica.index();
    inputs[t].emplace(
        rank_reader(options_.shape, options_.layout, grid, place, schedules[replica].exchanges,
                    parameters_[t].front().buckets.front().values_N),
        plan.replicas[replica].packs, tokens);
  });
  // Before any rank runs: a fast neighbour's first message already counts as an activation.
  std::vector<Bytes> resident;
  for (std::int32_t thread = 0; thread < threads_.ranks(); ++thread) {
    const RankMemory memory(options_.device, thread);
    memory.reset_peak();
    resident.push_back(memory.live());
  }
  on_ranks_by(kind, [&](std::int32_t rank, Communicator& communicator, RankClock& clock) {
    const RankPlace place = grid.place(rank);
    const PackPlan& packs = plan.replicas[place.replica.index()].packs;
    const std::span<StageParameters> parameters = this->parameters(rank);
    // Given back on the rank's own thread, in the order of its queue.
    const std::optional<StepInputs> own_inputs = std::exchange(
        inputs[static_cast<std::size_t>(std::ranges::find(ranks_, rank) - ranks_.begin())],
        std::nullopt);
    std::deque<StageStep> stages;
    for (StageParameters& of_stage : parameters) {
      const StageId stage =
          grid.placement.stage(place.pipeline, static_cast<std::int32_t>(stages.size()));
      stages.emplace_back(options_.shape,
                          StagePlace{stage.value() == 0,
                                     stage.value() == grid.stages() - 1,
                                     {place.replica, grid.tensor, place.tensor},
                                     grid.spread_vocabulary,
                                     options_.cp_comm_type,
                                     options_.layout.layer_begin[stage.index()]},
                          of_stage, *rope_, packs, plan.lengths, *own_inputs,
                          recompute_of_stage(plan, stage), &communicator);
    }
    std::optional<VocabularyStep> vocabulary;
    if (grid.spread_vocabulary)
      vocabulary.emplace(options_.shape, grid, place, parameters, *own_inputs, communicator);
    work({options_, rank, parameters, stages, vocabulary ? &*vocabulary : nullptr, packs,
          schedules[place.replica.index()].ranks[static_cast<std::size_t>(place.pipeline)],
          schedules[place.replica.index()].exchanges, communicator, update, clock,
          resident[static_cast<std::size_t>(tracked_rank())]});
  });
}

StepResult Engine::run(const StepPlan& plan, std::span<const LoweredSchedule> schedules,
                       const StepTokens& tokens, const std::optional<OptimizerUpdate>& update,
                       std::optional<ClockKind> clock) {
  const ClockKind kind = clock.value_or(options_.clock);
  StepResult step;
  on_step_ranks(plan, schedules, tokens, update, kind, [&](const RankStep& rank) {
    zero_gradients(rank.parameters);
    const RankResult own = run_rank(rank);
    AllRanks all = gathered(own, rank.communicator.world());
    if (rank.rank != ranks_.front()) return;
    step.gradient_norm = own.gradient_norm;
    step.loss = tokens.targets > 0 ? own.loss_sum / tokens.weight : 0.0;
    step.update = all.update;
    step.timeline = std::move(all.timeline);
  });
  step.timeline.replicas = options_.replicas;
  step.timeline.tensor = options_.tensor;
  step.timeline.origin = kind == ClockKind::kWall ? "measured" : "measured in virtual time";
  return step;
}

double Engine::evaluate(const StepPlan& plan, std::span<const LoweredSchedule> schedules,
                        const StepTokens& tokens) {
  double loss_sum = 0;
  on_step_ranks(plan, schedules, tokens, std::nullopt, options_.clock, [&](const RankStep& rank) {
    const double all = evaluate_rank(rank);
    if (rank.rank == ranks_.front()) loss_sum = all;
  });
  return loss_sum;
}

}  // namespace slimpack
