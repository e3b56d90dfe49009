// World: connects the ranks of a job, whether they are threads of one process or several processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/communicator.h"

namespace slimpack {

/// Makes the communicators of this process's ranks for one run of all ranks together. After a
/// failure the next run needs another world. Thread-safe; outlives its communicators.
class World {
 public:
  virtual ~World() = default;

  /// The communicator of one rank of this process. Only that rank's thread uses it and the clock.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(std::int32_t rank,
                                                                   RankClock& clock) = 0;

  /// Wakes every waiting rank of this process. All calls that wait throw from now on. Keeps the
  /// first cause.
  virtual void fail(std::exception_ptr cause) = 0;
  [[nodiscard]] virtual std::exception_ptr cause() const = 0;
};

/// One of the processes of a job. Every process makes the same calls in the same order.
class JobProcess {
 public:
  virtual ~JobProcess() = default;

  /// The ranks that this process runs, ascending.
  [[nodiscard]] virtual std::vector<std::int32_t> ranks() const = 0;
  /// The ranks on a node, of all processes together; 0 = one node has all.
  [[nodiscard]] virtual std::int32_t ranks_per_node() const { return 0; }

  /// A world for the ranks of all processes. Waits for the other processes.
  [[nodiscard]] virtual std::unique_ptr<World> make_world() = 0;

  /// The texts of all processes, in the order of their first ranks.
  [[nodiscard]] virtual std::vector<std::string> all_gather(const std::string& own) = 0;
};

/// Whether this process decides and prints for the job: it runs rank 0, or it is the only one
/// (null).
[[nodiscard]] inline bool speaks_for_job(const JobProcess* process) {
  return process == nullptr || process->ranks().front() == 0;
}

/// The texts of all processes, as JobProcess::all_gather, once every process has its text. Slow
/// work may take longer than the timeout of one all_gather, so the processes repeat short ones
/// until all are ready. `ready` waits for this process's work, at most the given time, and returns
/// whether it is done. Then `own` is called once and returns the text. Throws what `ready` and
/// `own` throw.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::function<bool(std::chrono::milliseconds)>& ready,
    const std::function<std::string()>& own);

/// gather_when_ready of a future's text.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::shared_future<std::string>& own);

}  // namespace slimpack
