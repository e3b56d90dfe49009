// Two processes of a job as threads of the test: each has an engine of its own with some of the
// ranks, and nothing in common but the world that connects them.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/packflow/ranks/thread_world.h"
#include "slimpack/packflow/step/engine.h"

namespace slimpack::testing {

class TwoProcesses {
 public:
  explicit TwoProcesses(const RankGrid& grid) : grid_(grid) {}

  /// Waits for the other process. The world of this round, which both share.
  std::shared_ptr<ThreadWorld> next_world(bool first) {
    if (first) world_ = std::make_shared<ThreadWorld>(grid_, kChannelSlots);
    both_.arrive_and_wait();
    std::shared_ptr<ThreadWorld> world = world_;
    both_.arrive_and_wait();
    return world;
  }
  std::vector<std::string> all_gather(bool first, const std::string& own) {
    told_[first ? 0 : 1] = own;
    both_.arrive_and_wait();
    std::vector<std::string> all(told_.begin(), told_.end());
    both_.arrive_and_wait();
    return all;
  }

 private:
  RankGrid grid_;
  std::barrier<> both_{2};
  std::shared_ptr<ThreadWorld> world_;
  std::array<std::string, 2> told_;
};

class OneOfTwo final : public JobProcess {
 public:
  OneOfTwo(TwoProcesses& both, std::vector<std::int32_t> ranks)
      : both_(both), ranks_(std::move(ranks)) {}

  std::vector<std::int32_t> ranks() const override { return ranks_; }
  std::unique_ptr<World> make_world() override {
    return std::make_unique<SharedWorld>(both_.next_world(is_first()));
  }
  std::vector<std::string> all_gather(const std::string& own) override {
    return both_.all_gather(is_first(), own);
  }

 private:
  class SharedWorld final : public World {
   public:
    explicit SharedWorld(std::shared_ptr<ThreadWorld> world) : world_(std::move(world)) {}
    std::unique_ptr<Communicator> communicator(std::int32_t rank, RankClock& clock) override {
      return world_->communicator(rank, clock);
    }
    void fail(std::exception_ptr cause) override { world_->fail(std::move(cause)); }
    std::exception_ptr cause() const override { return world_->cause(); }

   private:
    std::shared_ptr<ThreadWorld> world_;
  };

  [[nodiscard]] bool is_first() const { return ranks_.front() == 0; }

  TwoProcesses& both_;
  std::vector<std::int32_t> ranks_;
};

/// Runs `work` in two processes that divide the ranks at random; in this one where there is only
/// one rank.
inline void in_two_processes(EngineOptions options, Rng& rng,
                             const std::function<void(Engine&)>& work) {
  const std::int32_t ranks = options.grid().ranks();
  std::array<std::vector<std::int32_t>, 2> of_process;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    of_process[rank == 0 ? 0 : rank == 1 ? 1 : rng.below(2)].push_back(rank);
  if (ranks == 1) {
    Engine engine(options);
    return work(engine);
  }
  TwoProcesses both(options.grid());
  std::array<std::exception_ptr, 2> failed;
  std::vector<std::thread> processes;
  for (std::size_t i = 0; i < 2; ++i)
    processes.emplace_back([&, i] {
      try {
        OneOfTwo process(both, of_process[i]);
        EngineOptions own = options;
        own.process = &process;
        Engine engine(own);
        work(engine);
      } catch (...) {
        failed[i] = std::current_exception();
      }
    });
  for (std::thread& process : processes) process.join();
  for (const std::exception_ptr& cause : failed)
    if (cause) std::rethrow_exception(cause);
}

}  // namespace slimpack::testing
