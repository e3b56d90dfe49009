// Processes of a job as threads of the test, which tell each other texts and train nothing.
#pragma once

#include <barrier>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "slimpack/packflow/ranks/world.h"

namespace slimpack::testing {

/// State that the processes share.
class ThreadJob {
 public:
  explicit ThreadJob(std::int32_t processes)
      : all_(processes), texts_(static_cast<std::size_t>(processes)) {}

  std::vector<std::string> all_gather(std::int32_t rank, const std::string& own) {
    all_.arrive_and_wait();
    texts_[static_cast<std::size_t>(rank)] = own;
    all_.arrive_and_wait();
    return texts_;
  }

 private:
  std::barrier<> all_;
  std::vector<std::string> texts_;
};

class ThreadProcess final : public JobProcess {
 public:
  ThreadProcess(ThreadJob& job, std::int32_t rank) : job_(job), rank_(rank) {}

  [[nodiscard]] std::vector<std::int32_t> ranks() const override { return {rank_}; }
  [[nodiscard]] std::unique_ptr<World> make_world() override { return nullptr; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& own) override {
    ++rounds;
    return job_.all_gather(rank_, own);
  }

  int rounds = 0;

 private:
  ThreadJob& job_;
  std::int32_t rank_;
};

/// Runs `work` once for each process of a job of so many; what each returned. REQUIRES: `work`
/// throws nothing.
inline std::vector<std::string> in_processes(
    std::int32_t processes, const std::function<std::string(JobProcess&, std::int32_t)>& work) {
  ThreadJob job(processes);
  std::vector<std::string> results(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < processes; ++rank)
    threads.emplace_back([&, rank] {
      ThreadProcess process(job, rank);
      results[static_cast<std::size_t>(rank)] = work(process, rank);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace slimpack::testing
