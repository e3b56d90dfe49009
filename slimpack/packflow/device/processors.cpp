#include "slimpack/packflow/device/processors.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace slimpack {

std::vector<int> usable_processors() {
  cpu_set_t usable;
  std::vector<int> numbers;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return numbers;
  for (int p = 0; p < CPU_SETSIZE; ++p)
    if (CPU_ISSET(p, &usable)) numbers.push_back(p);
  return numbers;
}

std::int32_t processors() {
  const std::size_t usable = usable_processors().size();
  return static_cast<std::int32_t>(usable > 0 ? usable
                                              : std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace slimpack
