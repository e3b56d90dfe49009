// Options of an engine and its ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/link_times.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/world.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

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

}  // namespace slimpack
