#include "bench/stolen_time.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace slimpack {

/// proc_stat(5): "cpu", then ticks of user, nice, system, idle, iowait, irq, softirq, steal.
Nanos StolenTime::read() {
  constexpr int kStealColumn = 8;
  std::ifstream in("/proc/stat");
  std::string cpu;
  in >> cpu;
  std::int64_t ticks = 0;
  for (int column = 1; column <= kStealColumn; ++column) in >> ticks;
  return in ? Nanos(ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK))) : Nanos(0);
}

}  // namespace slimpack
