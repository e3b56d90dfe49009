#include "slimpack/planner/speed_tracker.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/median.h"
#include "slimpack/planner/replay.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack {
namespace {

/// Steps whose median counts, and how many of them there must be.
constexpr std::size_t kWindow = 5;
constexpr std::size_t kFewest = 3;
/// A speed that differs by this share from the believed one changes what is believed. A shared
/// machine's speed changes by less from step to step.
constexpr double kHysteresis = 0.1;
/// The largest ratio of a speed to the costs' speed. Beyond it something else is wrong.
constexpr double kBound = 4;
constexpr double kDrift = 0.2;

/// The predicted time of the work, if it is the task of a MicroPack; 0 for work that is no task of
/// its own.
Nanos task_time(const TaskTimes& times, SpanKind kind, std::size_t stage, PackId pack) {
  switch (kind) {
    case SpanKind::kForward:
      return times.forward[stage][pack.index()];
    case SpanKind::kBackward:
      return times.backward[stage][pack.index()];
    case SpanKind::kInputGradient:
      return times.input_gradient[stage][pack.index()];
    case SpanKind::kWeightGradient:
      return times.weight_gradient[stage][pack.index()];
    default:
      return Nanos(0);
  }
}

/// Whether the replica runs the MicroPack of this work by itself.
bool runs_alone(const RatedPlan& step, std::size_t replica, const Work& work) {
  const PackPlan& packs = step.plan.replicas[replica].packs;
  const bool forward = std::get<1>(work) == SpanKind::kForward;
  return (forward ? packs.forward : packs.backward)[std::get<3>(work).index()].replicas == 1;
}

double at(const RankSpeeds& speeds, std::size_t replica, std::size_t rank) {
  return speeds.empty() ? 1.0 : speeds[replica][rank];
}

template <class T>
void keep_last(std::deque<T>& window, T value) {
  window.push_back(std::move(value));
  if (window.size() > kWindow) window.pop_front();
}

/// The values of all steps by replica and rank, each made one by `of`.
template <class Of>
RankSpeeds by_rank(const std::deque<RankSpeeds>& steps, const Of& of) {
  RankSpeeds result = steps.front();
  for (std::size_t r = 0; r < result.size(); ++r)
    for (std::size_t p = 0; p < result[r].size(); ++p) {
      std::vector<double> all;
      for (const RankSpeeds& step : steps) all.push_back(step[r][p]);
      result[r][p] = of(std::move(all));
    }
  return result;
}

/// Whether measured ÷ predicted is off.
bool is_off(double ratio) {
  return ratio >= 1 + kDrift || ratio <= 1 / (1 + kDrift);
}

struct Slowest {
  std::size_t replica = 0, rank = 0;
  double speed = 0;
  double usual = 0;  ///< the median over all ranks
};

Slowest slowest_of(const RankSpeeds& speeds) {
  Slowest slowest{.speed = std::numeric_limits<double>::infinity()};
  std::vector<double> all;
  for (std::size_t r = 0; r < speeds.size(); ++r)
    for (std::size_t p = 0; p < speeds[r].size(); ++p) {
      all.push_back(speeds[r][p]);
      if (speeds[r][p] < slowest.speed) slowest = {r, p, speeds[r][p], 0};
    }
  slowest.usual = median(all);
  return slowest;
}

std::string cause_of(const RankSpeeds& relative) {
  const Slowest slowest = slowest_of(relative);
  if (std::abs(slowest.usual - 1) > kDrift / 2)
    return fmt::format(
        "ranks take {:.2f} × the time that the costs say: the machine has other work, or the costs "
        "are of another time or machine; measure again with 'slimpack profile'",
        1 / slowest.usual);
  if (slowest.speed < 1 - kDrift / 2)
    return fmt::format(
        "replica {}'s pipeline rank {} takes {:.2f} × the time that the costs say, other ranks do "
        "not; parallel.follow_speed = true gives it less work",
        slowest.replica, slowest.rank, 1 / slowest.speed);
  return "ranks compute as fast as the costs say, but wait: transfers take another time, or "
         "durations change from step to step";
}

}  // namespace

RankSpeeds measured_speeds(const RatedPlan& step, const Costs& cost, const Timeline& measured) {
  RankSpeeds speeds = step.speed;
  const auto pipelines = static_cast<std::size_t>(measured.replicas);
  const auto tensor = static_cast<std::size_t>(measured.tensor);
  const std::size_t ranks = static_cast<std::size_t>(measured.ranks) / pipelines / tensor;
  if (speeds.empty()) speeds.assign(pipelines, std::vector<double>(ranks, 1.0));
  const std::vector<ReplicaPacks> replicas = costed_replicas(step, cost);
  std::vector<std::vector<double>> of_rank(static_cast<std::size_t>(measured.ranks));
  for (const auto& [work, duration] : busy_durations(measured)) {
    const auto [rank, kind, stage, pack] = work;
    const auto index = static_cast<std::size_t>(rank);
    const std::size_t replica = index / (ranks * tensor);
    const Nanos expected = task_time(replicas[replica].times, kind, stage.index(), pack);
    if (expected > Nanos(0) && duration > 0 && runs_alone(step, replica, work))
      of_rank[index].push_back(static_cast<double>(expected.count()) / duration);
  }
  for (std::size_t r = 0; r < pipelines; ++r)
    for (std::size_t p = 0; p < ranks; ++p) {
      double slowest = std::numeric_limits<double>::infinity();
      for (std::size_t t = 0; t < tensor; ++t) {
        const std::vector<double>& all = of_rank[(r * ranks + p) * tensor + t];
        if (!all.empty()) slowest = std::min(slowest, median(all));
      }
      if (std::isfinite(slowest)) speeds[r][p] *= slowest;
    }
  return speeds;
}

RankSpeeds SpeedTracker::medians() const {
  return by_rank(last_, [](std::vector<double> all) {
    return std::clamp(median(std::move(all)), 1 / kBound, kBound);
  });
}

bool SpeedTracker::add(RankSpeeds measured) {
  keep_last(last_, std::move(measured));
  if (last_.size() < kFewest) return false;
  RankSpeeds now = medians();
  bool changed = false;
  for (std::size_t r = 0; r < now.size(); ++r)
    for (std::size_t p = 0; p < now[r].size(); ++p)
      changed = changed || std::abs(now[r][p] / at(believed_, r, p) - 1) >= kHysteresis;
  if (changed) believed_ = std::move(now);
  return changed;
}

std::optional<std::string> DriftWatch::add(Nanos predicted, Nanos makespan,
                                           const RankSpeeds& assumed,
                                           const std::function<RankSpeeds()>& measured) {
  if (told_ || predicted <= Nanos(0)) return std::nullopt;
  keep_last(last_, static_cast<double>(makespan.count()) / static_cast<double>(predicted.count()));
  if (!is_off(last_.back())) return std::nullopt;
  RankSpeeds relative = measured();
  for (std::size_t r = 0; r < relative.size(); ++r)
    for (std::size_t p = 0; p < relative[r].size(); ++p) relative[r][p] /= at(assumed, r, p);
  keep_last(last_speeds_, std::move(relative));
  if (last_.size() < kWindow) return std::nullopt;
  const double usual = median({last_.begin(), last_.end()});
  if (!is_off(usual)) return std::nullopt;
  told_ = true;
  const RankSpeeds speeds =
      by_rank(last_speeds_, [](std::vector<double> all) { return median(std::move(all)); });
  return fmt::format("steps take {:.2f} × their predicted time: {}", usual, cause_of(speeds));
}

std::vector<std::vector<double>> stage_speeds(std::span<const double> by_rank,
                                              const ParallelGrid& grid) {
  if (by_rank.empty()) return {};
  const auto ranks = static_cast<std::size_t>(grid.tp);
  std::vector<std::vector<double>> speed(static_cast<std::size_t>(grid.dp),
                                         std::vector<double>(static_cast<std::size_t>(grid.pp)));
  std::size_t first = 0;
  for (std::vector<double>& replica : speed)
    for (double& stage : replica) {
      const std::span<const double> known = by_rank.subspan(std::min(first, by_rank.size()));
      const std::span<const double> own = known.first(std::min(ranks, known.size()));
      stage = own.size() < ranks ? 1.0 : own.front();
      for (const double rank : own) stage = std::min(stage, rank);
      first += ranks;
    }
  return speed;
}

}  // namespace slimpack
