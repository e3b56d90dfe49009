#include "slimpack/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "slimpack/base/threads.h"

namespace slimpack {

int machine_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const auto helpers = std::min(static_cast<std::size_t>(std::max(1, threads)), count);
  {
    std::vector<std::jthread> running;
    try {
      for (std::size_t i = 1; i < helpers; ++i) running.emplace_back(take);
    } catch (const std::system_error& e) {
      if (!out_of_threads(e)) throw;  // else those that there are do all
    }
    take();
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace slimpack
