#include "slimpack/base/threads.h"

#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace slimpack {
namespace {

/// A file that holds one number, or "max".
std::optional<long> number_in(const std::string& file) {
  std::ifstream in(file);
  long number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

/// pids.max of this process's control group. A line of the file is NUMBER:CONTROLLERS:PATH; version
/// 2 has no controllers.
std::optional<long> group_limit() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "pids") continue;
    const std::string root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    // A container sees its own group as the root.
    for (const std::string& path : {line.substr(second + 1), std::string()})
      if (const auto limit = number_in(root + path + "/pids.max")) return limit;
  }
  return std::nullopt;
}

}  // namespace

std::string thread_limits() {
  std::vector<std::string> limits;
  rlimit of_user{};
  if (::getrlimit(RLIMIT_NPROC, &of_user) == 0 && of_user.rlim_cur != RLIM_INFINITY)
    limits.push_back(fmt::format("{} for a user (ulimit -u)", of_user.rlim_cur));
  if (const auto of_group = group_limit())
    limits.push_back(fmt::format("{} for this container or service (pids.max)", *of_group));
  if (const auto of_machine = number_in("/proc/sys/kernel/threads-max"))
    limits.push_back(fmt::format("{} for the machine (kernel.threads-max)", *of_machine));
  return fmt::format("the system allows {}; end other programs, free memory or raise the limit",
                     fmt::join(limits, ", "));
}

void require_threads(int count) {
  std::vector<std::jthread> threads;
  std::promise<void> end;  // its end, before that of the threads, wakes them
  const std::shared_future<void> ended = end.get_future().share();
  for (int i = 1; i < count; ++i)
    threads.push_back(started(fmt::format("each of {} cores", count),
                              [&] { return std::jthread([ended] { ended.wait(); }); }));
}

std::vector<int> usable_processors() {
  cpu_set_t usable;
  std::vector<int> numbers;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return numbers;
  for (int p = 0; p < CPU_SETSIZE; ++p)
    if (CPU_ISSET(p, &usable)) numbers.push_back(p);
  return numbers;
}

int processors() {
  const auto usable = static_cast<int>(usable_processors().size());
  return usable > 0 ? usable : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
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

std::function<void()> on_this_thread(std::function<void()> tell) {
  if (!tell) return [] {};
  return [tell = std::move(tell), caller = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == caller) tell();
  };
}

}  // namespace slimpack
