// Persistent threads, one per rank: libtorch's settings are per thread, and so are caches.
#pragma once

#include <c10/core/Device.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace slimpack {

/// Each thread computes on its own (one libtorch thread), without autograd, and its tensors are
/// charged to its rank. Work on a device other than the CPU goes through the thread's own queue.
class RankThreads {
 public:
  /// `pin`: thread r stays on the r-th processor that this process may use (modulo their number).
  /// `deterministic`: the process computes the same bits in every run (set_deterministic). Throws
  /// InvalidInput for more than kMaxTrackedRanks, RunFailed where the system has no thread left,
  /// and what the device says when a rank cannot use it.
  RankThreads(std::int32_t ranks, bool pin, c10::Device device = c10::Device(c10::kCPU),
              bool deterministic = true);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(threads_.size()); }

  /// Runs `work(rank)` on every thread and waits for all. REQUIRES: `work` does not throw.
  void run(const std::function<void(std::int32_t)>& work);

 private:
  void start(bool pin);
  void stop();
  void loop(std::int32_t rank);

  c10::Device device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::int32_t)>* work_ = nullptr;
  std::uint64_t round_ = 0;
  std::int32_t running_;       ///< ranks that start, or are at work
  std::exception_ptr failed_;  ///< why a rank could not start
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

/// The exception that is being handled, for others to see: an exception of libtorch becomes one
/// line that names the rank, without a backtrace. REQUIRES: called in a handler.
[[nodiscard]] std::exception_ptr failure_of(std::int32_t rank);

}  // namespace slimpack
