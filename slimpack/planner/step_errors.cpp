#include "slimpack/planner/step_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/cost/pack_cost.h"

namespace slimpack {
namespace {

/// Durations of a part of the work, one of each repetition.
using Durations = std::map<Work, std::vector<double>>;

Durations durations_of(std::span<const Timeline> measured) {
  Durations all;
  for (const Timeline& timeline : measured)
    for (const auto& [work, duration] : busy_durations(timeline)) all[work].push_back(duration);
  return all;
}

double spread_of(const std::vector<double>& durations) {
  const auto [fastest, slowest] = std::ranges::minmax(durations);
  return (slowest - fastest) / std::max(1.0, median(durations));
}

/// The work of each rank, in the order of its starts. A part of the work that is interrupted counts
/// where it starts first.
std::vector<std::vector<Work>> orders_of(const Timeline& timeline) {
  std::vector<Span> spans;
  for (const Span& span : timeline.spans)
    if (is_busy(span.kind)) spans.push_back(span);
  std::ranges::stable_sort(spans, {}, &Span::start);
  std::vector<std::vector<Work>> orders(static_cast<std::size_t>(timeline.ranks));
  std::map<Work, bool> seen;
  for (const Span& s : spans) {
    const Work work{s.rank, s.kind, s.stage, s.pack};
    // Reductions run beside other work, in an order that links decide.
    if (s.kind == SpanKind::kReduce || std::exchange(seen[work], true)) continue;
    orders[static_cast<std::size_t>(s.rank)].push_back(work);
  }
  return orders;
}

bool is_forward(SpanKind kind) {
  return kind == SpanKind::kForward || kind == SpanKind::kEmbedding;
}

/// Says why the cost model missed a part of the work.
class Reasons {
 public:
  Reasons(const RatedPlan& step, const Durations& measured, const std::map<Work, double>& predicted,
          std::int32_t ranks_of_replica)
      : step_(step), ranks_of_replica_(ranks_of_replica) {
    std::map<std::pair<std::int32_t, SpanKind>, std::vector<double>> ratios;
    for (const auto& [work, durations] : measured) {
      const auto found = predicted.find(work);
      if (found == predicted.end() || found->second <= 0) continue;
      ratios[{std::get<0>(work), std::get<1>(work)}].push_back(median(durations) / found->second);
    }
    for (const auto& [kind, all] : ratios) usual_[kind] = median(all);
  }

  [[nodiscard]] std::string of(const ActionError& e) const {
    const auto& [rank, kind, stage, pack] = e.work;
    if (e.predicted == Nanos(0)) return "it is predicted to take no time";
    const double ratio = 1 / (1 + e.error());  // measured ÷ predicted
    const double off = std::abs(ratio - 1);
    if (e.spread >= off / 2)
      return fmt::format("repetitions differ by {}: the machine's speed", human_share(e.spread));
    const double usual = usual_.at({rank, kind});
    if (std::abs(usual - 1) >= off / 2 && (usual > 1) == (ratio > 1))
      return fmt::format("all {} of rank {} take {:.2f} × their prediction", to_string(kind), rank,
                         usual);
    if (pack.value() >= 0) {
      const MicroPack& p = pack_of(rank, kind, pack);
      if (p.rows() < PackCost::kFullRows)
        return fmt::format("few rows: {}", grouped(p.rows().count()));
      const auto slices = static_cast<std::int64_t>(p.slices.size());
      return fmt::format(
          "{} slices of {} tokens on average: kernels are not as the cost model says", slices,
          grouped(p.tokens().count() / slices));
    }
    return "the profile measured this part on other sizes";
  }

 private:
  [[nodiscard]] const MicroPack& pack_of(std::int32_t rank, SpanKind kind, PackId pack) const {
    const auto replica = static_cast<std::size_t>(rank / ranks_of_replica_);
    const PackPlan& packs = step_.plan.replicas[replica].packs;
    return (is_forward(kind) ? packs.forward : packs.backward)[pack.index()];
  }

  const RatedPlan& step_;
  std::int32_t ranks_of_replica_;
  std::map<std::pair<std::int32_t, SpanKind>, double> usual_;  ///< measured ÷ predicted
};

}  // namespace

double StepErrors::memory_error() const {
  double largest = 0;
  for (std::size_t r = 0; r < predicted_peak.size(); ++r) {
    const auto peak = static_cast<double>(std::max(Bytes(1), measured_peak[r]).count());
    largest =
        std::max(largest, std::abs(static_cast<double>(predicted_peak[r].count()) / peak - 1));
  }
  return largest;
}

std::vector<ActionError> largest_action_errors(const Timeline& predicted,
                                               std::span<const Timeline> measured,
                                               std::size_t most) {
  const std::map<Work, double> expected = busy_durations(predicted);
  const auto nanos = [](double time) { return Nanos(static_cast<std::int64_t>(time)); };
  std::vector<ActionError> all;
  for (const auto& [work, durations] : durations_of(measured)) {
    const auto found = expected.find(work);
    if (found != expected.end())
      all.push_back(
          {work, nanos(found->second), nanos(median(durations)), spread_of(durations), ""});
  }
  const auto off = [](const ActionError& e) {
    return -std::abs((e.predicted - e.measured).count());
  };
  std::ranges::stable_sort(all, {}, off);
  all.resize(std::min(all.size(), most));
  return all;
}

StepErrors step_errors(const RatedPlan& step, const Costs& cost, std::span<const Timeline> measured,
                       std::size_t most) {
  SLIMPACK_CHECK(!measured.empty());
  const SimulationResult prediction = predict(step, cost);
  const Timeline predicted = with_tensor_ranks(prediction.timeline, cost.tp);
  const Durations durations = durations_of(measured);
  StepErrors errors;
  errors.predicted = prediction.makespan;
  errors.predicted_bubble = prediction.bubble_ratio;
  errors.predicted_peak = predicted.peak_activation;
  errors.replayed = replay(step, cost, measured).makespan;
  errors.measured_peak.resize(errors.predicted_peak.size());
  const auto order = orders_of(predicted);
  std::vector<double> makespans, bubbles, spreads;
  for (const Timeline& timeline : measured) {
    const TimelineMetrics metrics = metrics_of(timeline);
    makespans.push_back(static_cast<double>(metrics.makespan.count()));
    bubbles.push_back(metrics.bubble_ratio);
    errors.same_order = errors.same_order && orders_of(timeline) == order;
    for (std::size_t r = 0; r < errors.measured_peak.size(); ++r)
      errors.measured_peak[r] = std::max(errors.measured_peak[r], metrics.ranks[r].peak_activation);
  }
  for (const auto& [work, of_work] : durations) spreads.push_back(spread_of(of_work));
  errors.measured = Nanos(static_cast<std::int64_t>(median(makespans)));
  errors.measured_bubble = median(bubbles);
  errors.jitter = median(spreads);
  errors.worst = largest_action_errors(predicted, measured, most);
  const Reasons reasons(step, durations, busy_durations(predicted),
                        predicted.ranks / predicted.replicas);
  for (ActionError& e : errors.worst) e.reason = reasons.of(e);
  return errors;
}

}  // namespace slimpack
