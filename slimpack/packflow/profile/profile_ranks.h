// Profile ranks: the threads on which a profile measures, all of them at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/device/rank_failure.h"
#include "slimpack/packflow/device/rank_threads.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/thread_world.h"

namespace slimpack {

/// One of them. All make the same calls in the same order.
class ProfileRank {
 public:
  ProfileRank(const RankGrid& grid, std::int32_t rank, const RankClock& clock,
              Communicator& communicator)
      : tensor_(grid.tensor),
        place_(grid.place(rank)),
        clock_(clock),
        communicator_(communicator) {}

  /// Of tensor-parallel ranks.
  [[nodiscard]] std::int32_t tensor() const { return tensor_; }
  [[nodiscard]] const RankPlace& place() const { return place_; }
  [[nodiscard]] Communicator& communicator() const { return communicator_; }

  /// The mean over the ranks, by which all decide alike.
  [[nodiscard]] double mean(double value) const {
    Collective& all = communicator_.world();
    return all.gathering().sum(value) / all.size();
  }

  /// At least a nanosecond, because a fit by relative errors needs positive times.
  [[nodiscard]] Nanos mean(Nanos time) const {
    const double nanos = mean(static_cast<double>(time.count()));
    return std::max(Nanos(1), Nanos(static_cast<std::int64_t>(nanos)));
  }

  /// Begins when all ranks do.
  template <class Work>
  [[nodiscard]] Nanos time_of(Work work) const {
    communicator_.world().barrier();
    const Nanos start = clock_.now();
    work();
    return clock_.now() - start;
  }

  /// The mean over the ranks.
  template <class Work>
  [[nodiscard]] Nanos fastest_of_three(Work work) const {
    const Nanos first = time_of(work), second = time_of(work), third = time_of(work);
    return mean(std::min({first, second, third}));
  }

 private:
  std::int32_t tensor_;
  RankPlace place_;
  const RankClock& clock_;
  Communicator& communicator_;
};

/// Runs `work` on every rank of the grid at once and returns what the first rank found. A rank that
/// throws ends all; its exception is rethrown.
template <class Result>
[[nodiscard]] Result on_profile_ranks(const RankGrid& grid, const ProfileThreads& how,
                                      const std::function<Result(const ProfileRank&)>& work) {
  RankThreads threads(grid.ranks(), how.pin, how.device);
  ThreadWorld world(grid, 1);
  std::optional<Result> result;
  ProcessorTurns turns;
  const Nanos start = monotonic_now();
  threads.run([&](std::int32_t rank) {
    try {
      RankClock clock(how.clock, start, &turns, how.device);
      const auto communicator = world.communicator(rank, clock);
      Result mine = work(ProfileRank(grid, rank, clock, *communicator));
      if (rank == 0) result = std::move(mine);
    } catch (...) {
      world.fail(failure_of(rank));
    }
  });
  if (world.cause()) std::rethrow_exception(world.cause());
  return *std::move(result);
}

}  // namespace slimpack
