// Activation budget: what a rank's memory leaves for activations beside the model's states.
#pragma once

#include <cstdint>
#include <optional>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Percent of a rank's memory on a CPU that is kept free for what no model here counts (docs/fit.md
/// says why so much): buffers of collectives, gaps in the allocator and workspaces of kernels.
inline constexpr std::int64_t kUncountedOfCpu = 5;

/// Memory of a rank that a GPU and its libraries hold all the time; 0 on a CPU.
struct GpuShare {
  Bytes context;
  Bytes allocator;      ///< unfilled pages
  Bytes communicators;  ///< NCCL's buffers for GpuGroups::node_peers

  [[nodiscard]] Bytes total() const { return context + allocator + communicators; }
  bool operator==(const GpuShare&) const = default;
};

/// The budget is the same for every rank of a pipeline, so the rank with the largest states
/// decides.
struct ActivationBudget {
  Bytes memory;                       ///< of a rank
  std::int64_t reserved_percent = 0;  ///< of it; no less than the known error of memory
  Bytes reserve;                      ///< so much is that
  GpuShare gpu;
  Bytes states;           ///< weights, gradients and optimizer of `rank`
  std::int32_t rank = 0;  ///< of the pipeline, with the largest states; the first of several

  /// The bytes that states and activations may fill together.
  [[nodiscard]] Bytes capacity() const { return memory - reserve - gpu.total(); }
  /// The bytes that activations may fill; negative when the states alone do not fit.
  [[nodiscard]] Bytes available() const { return capacity() - states; }
};

/// The percentage of a rank's memory that is kept free: on a CPU kUncountedOfCpu, and everywhere no
/// less than the known error of memory.
[[nodiscard]] std::int64_t reserved_percent(const Costs& cost);

/// nullopt when the cost model does not know the machine's memory. `most_merged`: replicas that may
/// run a MicroPack together.
[[nodiscard]] std::optional<ActivationBudget> activation_budget(const Costs& cost,
                                                                const StageLayout& layout,
                                                                std::int32_t replicas,
                                                                std::int32_t most_merged = 1);

/// available() of the budget, for Job::memory_cap; nullopt when the cost model does not know the
/// machine's memory. Throws JobDoesNotFit when the states leave nothing.
[[nodiscard]] std::optional<Bytes> activation_cap(const Costs& cost, const StageLayout& layout,
                                                  std::int32_t replicas,
                                                  std::int32_t most_merged = 1);

}  // namespace slimpack
