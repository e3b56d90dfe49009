#include "slimpack/packflow/device/rank_threads.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <stdexcept>

#include "slimpack/base/error.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"

namespace slimpack {
namespace {

void pin_thread(std::thread& thread, std::int32_t rank) {
  const std::vector<int> usable = usable_processors();
  if (usable.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(usable[static_cast<std::size_t>(rank) % usable.size()], &one);
  ::pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
}

}  // namespace

RankThreads::RankThreads(std::int32_t ranks, bool pin, c10::Device device, bool deterministic)
    : device_(device), running_(ranks) {
  if (ranks > kMaxTrackedRanks)
    invalid_input("{} ranks as threads of one process; there can be {} at most", ranks,
                  kMaxTrackedRanks);
  set_deterministic(device, deterministic);
  try {
    start(pin);
  } catch (...) {
    stop();
    throw;
  }
}

RankThreads::~RankThreads() {
  stop();
}

// Ranks wait for each other in what they run, so either all of them start or none does.
void RankThreads::start(bool pin) {
  const std::int32_t ranks = running_;
  for (std::int32_t r = 0; r < ranks; ++r) {
    threads_.push_back(started(fmt::format("rank {} of {}", r, ranks),
                               [&] { return std::thread([this, r] { loop(r); }); }));
    if (pin) pin_thread(threads_.back(), r);
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
  if (failed_) std::rethrow_exception(failed_);
}

void RankThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::run(const std::function<void(std::int32_t)>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  running_ = ranks();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
}

void RankThreads::loop(std::int32_t rank) {
  at::set_num_threads(1);
  const c10::InferenceMode no_autograd;
  const MemoryScope charged(rank);
  std::exception_ptr failed;
  try {
    use_own_queue(device_);
  } catch (...) {
    failed = failure_of(rank);
  }
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  if (failed) failed_ = failed;
  if (--running_ == 0) changed_.notify_all();
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    (*work_)(rank);
    lock.lock();
    if (--running_ == 0) changed_.notify_all();
  }
}

std::exception_ptr failure_of(std::int32_t rank) {
  try {
    throw;
  } catch (const c10::Error& e) {
    return std::make_exception_ptr(
        std::runtime_error(fmt::format("rank {}: {}", rank, e.what_without_backtrace())));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace slimpack
