#include "slimpack/cost/known_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "slimpack/cost/abilities.h"

namespace slimpack {
namespace {

struct TimeError {
  double mean;
  double worst;
  std::string_view from;
};

struct MemoryError {
  double largest;
  std::string_view from;
};

// The one table of known errors. docs/prediction.md says how each is derived.
constexpr TimeError kHardwareTimes{18, 44, "213 published steps from hardware files"};
constexpr TimeError kCpuTimes{5, 19, "30 workloads profiled and trained on a CPU"};
constexpr TimeError kGpuTimes{10, 12, "steps profiled and trained on an H100 and an H200"};
constexpr TimeError kAutogradTimes{4, 5, "two models under autograd on a CPU"};
constexpr MemoryError kCpuMemory{0.8, "300 plans trained on a CPU"};
constexpr MemoryError kGpuMemory{11, "published clusters, and steps on an H100 and an H200"};
constexpr MemoryError kAutogradMemory{9, "models under autograd on a CPU"};

TimeError times_of(const Costs& cost) {
  if (!cost.origin.measured_on && cost.origin.fit_error <= 0) return kHardwareTimes;
  if (abilities(cost).own_layers) return kAutogradTimes;
  return cost.device.gpu ? kGpuTimes : kCpuTimes;
}

MemoryError memory_of(const Costs& cost) {
  if (cost.device.gpu) return kGpuMemory;
  return abilities(cost).own_layers ? kAutogradMemory : kCpuMemory;
}

}  // namespace

KnownError known_error(const Costs& cost) {
  const TimeError times = times_of(cost);
  const MemoryError memory = memory_of(cost);
  return {times.mean, times.worst, memory.largest, times.from, memory.from};
}

std::string time_range(const KnownError& error) {
  return fmt::format("± {:g}%", error.time);
}

std::string describe(const KnownError& error) {
  return fmt::format("times ± {:g}% on average, {:g}% at worst ({}); memory {:g}% ({})", error.time,
                     error.worst_time, error.times_from, error.memory, error.memory_from);
}

nlohmann::json to_json(const KnownError& error) {
  return {{"time", error.time / 100},
          {"worst_time", error.worst_time / 100},
          {"memory", error.memory / 100},
          {"times_from", error.times_from},
          {"memory_from", error.memory_from}};
}

}  // namespace slimpack
