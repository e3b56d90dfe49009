// PackFlow's engine and the options of its ranks: a model split over stages, in replicas, run step
// by step under static schedules.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/device/rank_threads.h"
#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/link_times.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/world.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/packflow/step/step_record.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// Watches or disturbs the ranks of a step, on whose threads these are called.
struct EngineHooks {
  std::function<void()> before_action = {};
  /// Puts another communicator before that of a rank, in every step.
  std::function<std::unique_ptr<Communicator>(std::int32_t rank, std::unique_ptr<Communicator>)>
      wrap_communicator = {};
};

struct EngineOptions {
  Decoder shape;
  Dtype dtype = Dtype::kFp32;
  StageLayout layout;
  std::int32_t replicas = 1;
  std::int32_t tensor = 1;        ///< tensor-parallel ranks of a pipeline rank
  bool exchange_context = false;  ///< schedules may have context exchanges
  Tokens context{0};              ///< longest sequence of any step
  std::uint64_t seed = 0;
  bool pin_threads = false;
  ClockKind clock = ClockKind::kWall;
  CpCommType cp_comm_type = CpCommType::kDirect;  ///< between replicas that share MicroPacks
  /// The links over which messages of threads travel; nullopt: they take no time. REQUIRES: virtual
  /// time.
  std::optional<LinkUse> links = std::nullopt;
  at::Device device = at::Device(at::kCPU);  ///< of all ranks of this process
  bool deterministic = true;                 ///< the device computes the same bits in every run
  /// Says which of the ranks are threads of this process; null = all. Outlives the engine.
  JobProcess* process = nullptr;
  /// Asked on the ranks' threads before every action and every layer; true ends the step with
  /// Interrupted. Ignored where `process` is set: several processes agree on a stop between steps.
  std::function<bool()> should_stop = {};
  EngineHooks hooks = {};

  [[nodiscard]] RankGrid grid() const {
    return {layout.ranks(),
            replicas,
            tensor,
            layout.placement,
            layout.spread_vocabulary,
            exchange_context,
            process ? process->ranks_per_node() : 0};
  }
};

/// The optimizer step that ends a step. A reference, which outlives it.
struct OptimizerUpdate {
  const TrainConfig& config;
  std::int64_t step;
};

struct RankStep;  // rank_step.h

struct StepResult {
  double loss = 0;           ///< mean over the step's targets by their weights; 0 when it has none
  double gradient_norm = 0;  ///< before clipping
  UpdateOutcome update = UpdateOutcome::kNone;  ///< the same in all processes
  Timeline timeline;  ///< measured, by the engine's clock; empty where rank 0 does not run
};

/// Owns parameters and threads of the ranks that the process runs. All processes of a job make the
/// same calls in the same order. Not thread-safe.
class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();

  /// One step from zero gradients; afterwards each replica has the sum over all of them in its
  /// shards. With `update`, parameters are updated from them.
  /// REQUIRES: a plan and schedules by replica that check_lowered accepts, with this engine's
  /// layout and replicas; tokens of the plan's lengths. A rank that throws ends the step on all
  /// ranks, each at the end of a layer at the latest; the first exception is rethrown. The engine
  /// can run other steps then: parameters and optimizer are untouched, unless the rank threw in the
  /// update itself, which leaves some ranks' shards updated and others' not. A gradient norm or
  /// updated parameters that are not finite are no exception, but StepResult::update. The step is
  /// measured by `clock`; absent = the engine's. REQUIRES: virtual time only where every rank is a
  /// thread of this process on a CPU.
  [[nodiscard]] StepResult run(const StepPlan& plan, std::span<const LoweredSchedule> schedules,
                               const StepTokens& tokens,
                               const std::optional<OptimizerUpdate>& update,
                               std::optional<ClockKind> clock = std::nullopt);

  /// Σ weight · loss over the targets of `tokens`, those of the plan's documents. Runs only the
  /// forward actions of the schedules and keeps nothing for backward. Parameters, gradients and
  /// optimizer stay as they are. REQUIRES and throws as run().
  [[nodiscard]] double evaluate(const StepPlan& plan, std::span<const LoweredSchedule> schedules,
                                const StepTokens& tokens);

  /// Runs `work` on the threads of all ranks, which may talk to each other. A rank that throws ends
  /// it on all ranks when they next wait for one; the first exception is rethrown.
  using RankWork = std::function<void(std::int32_t rank, Communicator&, RankClock&)>;
  void on_ranks(const RankWork& work);

  /// The parameters of the rank's stages, in the order of the stages. REQUIRES: a rank of this
  /// process.
  [[nodiscard]] std::span<StageParameters> parameters(std::int32_t rank);
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  /// The attention kernel of the engine's ranks.
  [[nodiscard]] const KernelChoice& attention_kernel() const { return attention_kernel_; }
  /// The ranks that this process runs, ascending.
  [[nodiscard]] const std::vector<std::int32_t>& ranks() const { return ranks_; }

 private:
  /// Runs `work` on the thread of every rank here; throws what the first one throws.
  void on_threads(const std::function<void(std::size_t thread)>& work);
  [[nodiscard]] std::unique_ptr<World> make_world() const;
  /// Runs `work` on all ranks, each with its part of the step.
  void on_step_ranks(const StepPlan& plan, std::span<const LoweredSchedule> schedules,
                     const StepTokens& tokens, const std::optional<OptimizerUpdate>& update,
                     ClockKind clock, const std::function<void(const RankStep&)>& work);
  void on_ranks_by(ClockKind clock, const RankWork& work);

  EngineOptions options_;
  std::vector<std::int32_t> ranks_;
  RankThreads threads_;
  std::vector<std::vector<StageParameters>> parameters_;  ///< by rank of ranks_, then by its stage
  std::unique_ptr<Rope> rope_;
  KernelChoice attention_kernel_;
};

}  // namespace slimpack
