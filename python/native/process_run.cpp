#include "python/native/process_run.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "slimpack/base/error.h"
#include "slimpack/base/standard_streams.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/ranks/peer_health.h"
#include "slimpack/packflow/ranks/process_exchange.h"
#include "slimpack/packflow/ranks/process_job.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/console.h"

namespace slimpack {
namespace {

/// Ends the process of a job that has failed. The store may be in that of rank 0. The others ask it
/// once a second, and those that find no failure there would blame the store.
[[noreturn]] void leave(std::int32_t rank, int code) {
  if (rank == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  std::_Exit(code);
}

/// A count that torchrun puts into the environment; 0 = it is not there.
std::int32_t count_from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return 0;
  std::int32_t count = 0;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, count);
  if (read.ptr != end || count < 1)
    invalid_input("{} is {}; it must be 1 or more, as torchrun sets it", name, text);
  return count;
}

/// With what the launcher says about nodes.
RankGrid process_grid(const ParallelConfig& parallel) {
  RankGrid grid = rank_grid(parallel);
  grid.route = parallel.cp_route;
  grid.ranks_per_node = count_from_environment("LOCAL_WORLD_SIZE");
  if (grid.route && grid.ranks_per_node == 0)
    invalid_input(
        "parallel.cp_route is true, but LOCAL_WORLD_SIZE, the processes of a node, is not set; "
        "start the job with torchrun");
  if (grid.ranks_per_node == 0) return grid;
  const std::int32_t given = count_from_environment("GROUP_WORLD_SIZE");
  const std::int32_t nodes = given == 0 ? grid.ranks() / grid.ranks_per_node : given;
  if (nodes * grid.ranks_per_node != grid.ranks())
    invalid_input(
        "LOCAL_WORLD_SIZE, the processes of a node, is {}{}, but the job has {}; start equally "
        "many "
        "on every node",
        grid.ranks_per_node, given == 0 ? "" : fmt::format(" on {} nodes", given), grid.ranks());
  return grid;
}

}  // namespace

ProcessNeeds process_needs(const RunConfig& config, std::int32_t rank, std::int32_t ranks) {
  const RankGrid job = rank_grid(config.parallel);
  if (job.ranks() != ranks)
    invalid_input(
        "parallel.pp × dp × tp is {} × {} × {} = {} ranks, but the job has {} processes; start one "
        "for each rank",
        job.pipeline, job.replicas, job.tensor, job.ranks(), ranks);
  return {config.parallel.timeout, std::string(to_string(config.train.device)),
          process_groups(process_grid(config.parallel), rank)};
}

void run_process(const TrainRequest& request, std::int32_t rank,
                 const std::map<RankGroup, std::string>& names) {
  install_memory_tracker();
  const RankGrid grid = process_grid(request.config.parallel);
  std::optional<PeerHealth> health;
  if (grid.ranks() > 1) {
    const RankGroup world{GroupKind::kWorld, grid.ranks(), 0, 1};
    health.emplace(names.at(world), from_seconds(request.config.parallel.timeout),
                   [rank](const std::optional<std::string>& cause) {
                     if (cause) say(fmt::format("rank {}: {}", rank, *cause));
                     leave(rank, 1);
                   });
  }
  int code = 0;
  try {
    ProcessJob job(
        grid, rank, names, [&] { return health && health->failed(); },
        from_seconds(request.config.parallel.timeout),
        gradient_sums(request.config.train.same_bits()));
    train_at_console(request, &job);
    flush_standard_output();
    static_cast<void>(job.make_world());  // all have come to their end
    return;
  } catch (const std::exception& e) {
    code = exit_code(e);
    const std::string message = message_of(e);
    if (health && dynamic_cast<const PeerLost*>(&e) != nullptr) health->let_others_report();
    if (!health || health->report(message)) say(fmt::format("rank {}: {}", rank, message));
  }
  // Others wait for the end of this process's connections, and threads of this one perhaps for
  // others that will never answer.
  leave(rank, code);
}

}  // namespace slimpack
