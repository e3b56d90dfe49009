// Profile ranks: the threads or the processes on which a profile measures, all of them at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/device/rank_threads.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/thread_world.h"

namespace slimpack {

/// One of the ranks on which a profile measures. All ranks make the same calls in the same order.
class ProfileRank {
 public:
  ProfileRank(const RankGrid& grid, std::int32_t rank, const RankClock& clock,
              Communicator& communicator)
      : grid_(grid),
        rank_(rank),
        place_(grid.place(rank)),
        clock_(clock),
        communicator_(communicator) {}

  /// The number of tensor-parallel ranks.
  [[nodiscard]] std::int32_t tensor() const { return grid_.tensor; }
  [[nodiscard]] const RankPlace& place() const { return place_; }
  [[nodiscard]] Communicator& communicator() const { return communicator_; }

  /// Whether this rank is the first of all.
  [[nodiscard]] bool first() const { return rank_ == 0; }

  [[nodiscard]] const RankGrid& grid() const { return grid_; }
  [[nodiscard]] c10::Device device() const { return clock_.device(); }

  /// A rank that makes all calls, but whose times count in no mean. REQUIRES: one counts.
  [[nodiscard]] ProfileRank uncounted() const {
    ProfileRank same = *this;
    same.counts_ = false;
    return same;
  }

  /// The mean over the ranks that count, by which all decide alike.
  [[nodiscard]] double mean(double value) const {
    Gathering& all = communicator_.world().gathering();
    const double sum = all.sum(counts_ ? value : 0);
    return sum / all.sum(counts_ ? 1 : 0);
  }

  /// At least a nanosecond, because a fit by relative errors needs positive times.
  [[nodiscard]] Nanos mean(Nanos time) const {
    const double nanos = mean(static_cast<double>(time.count()));
    return std::max(Nanos(1), Nanos(static_cast<std::int64_t>(nanos)));
  }

  /// Begins when all ranks do. On a device it is the time between two events in the rank's queue.
  template <class Work>
  [[nodiscard]] Nanos time_of(Work work) const {
    finish_queue(clock_.device());
    communicator_.world().barrier();
    const RankClock::Moment begin = clock_.moment();
    work();
    const RankClock::Moment end = clock_.moment();
    return clock_.time_of(end) - clock_.time_of(begin);
  }

  /// The mean over the ranks.
  template <class Work>
  [[nodiscard]] Nanos fastest_of_three(Work work) const {
    const Nanos first = time_of(work), second = time_of(work), third = time_of(work);
    return mean(std::min({first, second, third}));
  }

 private:
  RankGrid grid_;
  std::int32_t rank_;
  RankPlace place_;
  const RankClock& clock_;
  Communicator& communicator_;
  bool counts_ = true;
};

/// Runs `work` on every rank of the grid at once and returns what the first rank of this process
/// found. A rank that throws ends all; its exception is rethrown.
template <class Result>
[[nodiscard]] Result on_profile_ranks(const RankGrid& grid, const ProfileThreads& how,
                                      const std::function<Result(const ProfileRank&)>& work) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(grid.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (how.process != nullptr) ranks = how.process->ranks();
  RankThreads threads(static_cast<std::int32_t>(ranks.size()), how.pin, how.device,
                      how.deterministic);
  const std::unique_ptr<World> world =
      how.process != nullptr ? how.process->make_world() : std::make_unique<ThreadWorld>(grid, 1);
  std::optional<Result> result;
  ProcessorTurns turns;
  const Nanos start = monotonic_now();
  threads.run([&](std::int32_t thread) {
    const std::int32_t rank = ranks[static_cast<std::size_t>(thread)];
    try {
      RankClock clock(how.clock, start, &turns, how.device);
      const auto communicator = world->communicator(rank, clock);
      Result mine = work(ProfileRank(grid, rank, clock, *communicator));
      communicator->settle();
      if (thread == 0) result = std::move(mine);
    } catch (...) {
      world->fail(failure_of(rank));
    }
  });
  if (world->cause()) std::rethrow_exception(world->cause());
  return *std::move(result);
}

}  // namespace slimpack
