// Profile: measures ranks with the runtime's own code and fits the cost model to them.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/fit.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/profile/kept_measurements.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/world.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Ranks that measure, and by which clock.
struct ProfileThreads {
  ClockKind clock = ClockKind::kWall;
  bool pin = false;
  c10::Device device = c10::Device(c10::kCPU);
  JobProcess* process = nullptr;  ///< whose ranks measure; null = threads of this process alone
  bool deterministic = true;      ///< the device computes the same bits in every run
};

/// A job whose ranks are processes, as one of them sees it. All of them measure together.
struct ProfileJob {
  JobProcess* process = nullptr;
  RankGrid grid;
};

struct ProfileOptions {
  Decoder shape;
  Dtype dtype = Dtype::kFp32;
  Tokens context{4096};    ///< longest sequence to measure
  std::int32_t ranks = 1;  ///< threads that measure at once: ranks of one machine slow each other
  std::int32_t tp = 1;     ///< tensor-parallel ranks of a stage; as many threads at least
  std::int32_t most_merged = 1;  ///< replicas that run a MicroPack together, at most
  CpCommType cp_comm_type = CpCommType::kDirect;  ///< how they exchange rows
  std::int32_t sharing = 1;  ///< ranks of the job that share the device's memory
  bool pin_threads = false;
  c10::Device device = c10::Device(c10::kCPU);
  bool deterministic = true;                     ///< as in the run
  std::optional<GpuMemory> gpu = std::nullopt;   ///< of the device, if each rank has one of its own
  std::optional<ProfileJob> job = std::nullopt;  ///< replaces `ranks` by the ranks of the job
  ClockKind clock = ClockKind::kWall;  ///< virtual: processor time, whoever else is running
  Nanos budget = from_seconds(6);      ///< wall time to aim at
  /// Called with the place where the fit of a layer is worst, if set; on the calling thread.
  std::function<void(const WorstFit&)> on_fit = nullptr;
  /// Called when `done` of `all` runs of a part are done, if set; on a thread of a rank, one call
  /// at a time.
  std::function<void(std::string_view part, std::int64_t done, std::int64_t all)> on_run = nullptr;
  /// The measurements of a profile that was stopped; null = none. Must outlive the profile.
  /// REQUIRES: no job.
  KeptMeasurements* kept = nullptr;
  std::string kept_kind =
      {};  ///< in the names of kept parts, where only layers of a kind are measured

  /// Measures layers of one kind of the model alone, in its share of the budget.
  [[nodiscard]] ProfileOptions of_kind(std::size_t kind) const;

  /// All that measurements depend on beside model, number format and machine, but for the budget:
  /// "context 8192 replicas 2 …", names and values.
  [[nodiscard]] std::string settings_text() const;
  /// All that they depend on: the job of KeptMeasurements.
  [[nodiscard]] std::string job_text() const;

  /// The figures of a part, kept or as `measure` finds them. Every rank calls this; those of the
  /// `first` one are kept.
  [[nodiscard]] std::vector<double> figures_of(
      const std::string& part, bool first,
      const std::function<std::vector<double>()>& measure) const;

  /// Points that would take more are left out.
  [[nodiscard]] Nanos most_of_a_point() const { return budget / 5; }

  [[nodiscard]] ProfileThreads threads() const {
    return {clock, pin_threads, device, job ? job->process : nullptr, deterministic};
  }

  /// The job's ranks, or one pipeline rank on as many threads as measure at once, or as can.
  [[nodiscard]] RankGrid grid() const {
    if (job) return job->grid;
    const std::int32_t threads = std::min(ranks, kMaxTrackedRanks);
    return {.replicas = std::max(1, threads / tp), .tensor = tp};
  }
};

/// Runs one decoder layer of each kind, embedding, head and optimizer over a grid of tokens and
/// prefixes, forward, backward and what backward can put off, with cold caches as in a step, and
/// fits their coefficients to the medians; then what ranks cost each other: transfers, gradient
/// reduction, and merged MicroPacks of 2, 4, … replicas; on a device other than a CPU, copies to
/// and from pinned host memory too. Times on a device are those of its queues. MicroPacks grow up
/// to the context there, while they are predicted to fit. A rank's memory is its share of what
/// device_memory says before anything is measured.
///
/// In a job all processes make this call at once. Transfers, reductions and merged MicroPacks are
/// then those between its ranks, whatever connects them; without a second replica reductions are
/// 0. Threads of one process hand over a tensor without a copy: their transfers take the same time
/// whatever the size, and their reductions are within one device.
/// Throws InvalidInput when tp cannot cut the model, and when tp · most_merged is more than threads
/// can be.
[[nodiscard]] Costs profile_costs(const ProfileOptions& options);

}  // namespace slimpack
