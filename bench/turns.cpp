#include "bench/turns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/median.h"

namespace slimpack {
namespace {

/// Processor time that a hypervisor gave to other machines while this one wanted it, of all
/// processors together, in steps of 10 ms; 0 where the system does not tell. proc_stat(5): "cpu",
/// then ticks of user, nice, system, idle, iowait, irq, softirq, steal.
Nanos stolen_so_far() {
  constexpr int kStealColumn = 8;
  std::ifstream in("/proc/stat");
  std::string cpu;
  in >> cpu;
  std::int64_t ticks = 0;
  for (int column = 1; column <= kStealColumn; ++column) in >> ticks;
  return in ? Nanos(ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK))) : Nanos(0);
}

/// Seconds of all ranks together.
double busy_seconds(const Timeline& timeline) {
  double busy = 0;
  for (const RankMetrics& rank : metrics_of(timeline).ranks) busy += to_seconds(rank.busy);
  return busy;
}

}  // namespace

std::vector<double> Way::all_seconds() const {
  std::vector<double> all;
  for (const StepResult& r : results) all.push_back(to_seconds(metrics_of(r.timeline).makespan));
  return all;
}

std::vector<double> Way::all_busy_seconds() const {
  std::vector<double> all;
  for (const StepResult& r : results) all.push_back(busy_seconds(r.timeline));
  return all;
}

std::vector<Timeline> Way::timelines() const {
  std::vector<Timeline> all;
  for (const StepResult& r : results) all.push_back(r.timeline);
  return all;
}

void run_in_turn(std::vector<Way>& ways, const StepTokens& tokens, const TrainConfig& train,
                 int turns, const std::function<void()>& before_turn) {
  for (int turn = 0; turn <= turns; ++turn) {
    const bool counts = turn > 0;
    if (counts && before_turn) before_turn();
    for (Way& way : ways) {
      const Nanos stolen = stolen_so_far();
      StepResult step = way.engine->run(way.planned.plan, way.planned.lowered, tokens,
                                        OptimizerUpdate{train, turn});
      fmt::print(stderr, "{}: {} {:.3f} s\n",
                 counts ? fmt::format("repetition {}", turn) : "warm-up", way.name,
                 to_seconds(metrics_of(step.timeline).makespan));
      if (!counts) continue;
      way.stolen.push_back(to_seconds(stolen_so_far() - stolen));
      way.results.push_back(std::move(step));
    }
  }
}

std::vector<double> by_turn(const std::vector<double>& a, const std::vector<double>& b,
                            double factor) {
  SLIMPACK_CHECK(a.size() == b.size());
  std::vector<double> quotients;
  for (std::size_t turn = 0; turn < a.size(); ++turn)
    quotients.push_back(factor * a[turn] / b[turn]);
  return quotients;
}

std::string turns_text(const std::vector<double>& quotients) {
  return fmt::format("{:.3f} ({:.3f})", median(quotients), fmt::join(quotients, ", "));
}

}  // namespace slimpack
