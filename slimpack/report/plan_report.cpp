#include "slimpack/report/plan_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/known_error.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/report/comparison.h"

namespace slimpack {
namespace {

std::size_t slice_count(const std::vector<MicroPack>& packs) {
  std::size_t count = 0;
  for (const MicroPack& pack : packs) count += pack.slices.size();
  return count;
}

/// The sum over replicas of count(packs), for the packs of one pass.
template <class Count>
std::size_t over_replicas(const StepPlan& plan, Pass pass, const Count& count) {
  std::size_t sum = 0;
  for (const ReplicaPlan& replica : plan.replicas) sum += count(replica.packs.of(pass));
  return sum;
}

std::size_t pack_count(const std::vector<MicroPack>& packs) {
  return packs.size();
}

std::string both_passes(std::size_t forward, std::size_t backward) {
  return fmt::format("{} forward, {} backward", grouped(static_cast<std::int64_t>(forward)),
                     grouped(static_cast<std::int64_t>(backward)));
}

/// The number of sequences that several replicas run together.
std::size_t merged_count(const StepPlan& plan) {
  std::vector<int> times(plan.lengths.size(), 0);
  for (const ReplicaPlan& replica : plan.replicas)
    for (const SequenceId q : replica.sequences) ++times[q.index()];
  return static_cast<std::size_t>(
      std::count_if(times.begin(), times.end(), [](int t) { return t > 1; }));
}

/// The number of split backward actions on all ranks.
std::int64_t split_count(const RatedPlan& step) {
  std::int64_t count = 0;
  for (const Schedule& schedule : step.schedules)
    for (const auto& actions : schedule.ranks)
      count += std::count_if(actions.begin(), actions.end(),
                             [](const Action& a) { return a.pass == Pass::kWeightGradient; });
  return count;
}

/// The context exchanges of all replicas.
std::int64_t exchange_count(const RatedPlan& step) {
  std::int64_t count = 0;
  for (const Schedule& schedule : step.schedules) count += std::ssize(schedule.exchanges);
  return count;
}

std::string replicas_text(const StepPlan& plan) {
  const std::size_t merged = merged_count(plan);
  const std::string count = grouped(static_cast<std::int64_t>(plan.replicas.size()));
  return merged == 0 ? count : fmt::format("{}, {} merged sequences", count, merged);
}

/// A rank of the pipeline: its stages, and the most that any replica's has. The peak is the highest
/// in any timing of the plan, which the memory cap bounds, too.
struct RankExtremes {
  std::string stages;
  std::int32_t layers = 0;
  Nanos busy;
  Bytes peak;
};

/// `needs`: rank_needs.
RankExtremes extremes_of(const RatedPlan& step, const std::vector<Bytes>& needs,
                         std::int32_t rank) {
  const StageLayout& layout = step.plan.layout;
  RankExtremes most;
  most.peak = needs[static_cast<std::size_t>(rank)];
  for (const StageId stage : layout.placement.stages_of(rank)) {
    most.stages += fmt::format("{}{}", most.stages.empty() ? "" : ", ", stage.value());
    most.layers += layout.layers(stage);
  }
  const auto ranks = static_cast<std::size_t>(layout.ranks());
  for (auto r = static_cast<std::size_t>(rank); r < step.prediction.busy.size(); r += ranks)
    most.busy = std::max(most.busy, step.prediction.busy[r]);
  return most;
}

std::string speed_text(const PredictedFigures& figures) {
  const std::string tokens = human_count(figures.tokens_per_second) + " tokens/s";
  return figures.mfu ? fmt::format("{}, MFU {}", tokens, human_share(*figures.mfu)) : tokens;
}

}  // namespace

ReportRows step_rows(const RatedPlan& step, const Costs& cost) {
  const StepPlan& plan = step.plan;
  const SimulationResult& predicted = step.prediction;
  ReportRows rows{{"sequences", grouped(static_cast<std::int64_t>(step.plan.lengths.size()))},
                  {"tokens", grouped(total_tokens(step.plan.lengths).count())},
                  {"replicas", replicas_text(plan)},
                  {"MicroPacks", both_passes(over_replicas(plan, Pass::kForward, pack_count),
                                             over_replicas(plan, Pass::kBackward, pack_count))},
                  {"slices", both_passes(over_replicas(plan, Pass::kForward, slice_count),
                                         over_replicas(plan, Pass::kBackward, slice_count))},
                  {"computed again", describe(step.plan.recompute)},
                  {"backwards split", fmt::format("{} of {}", grouped(split_count(step)),
                                                  grouped(static_cast<std::int64_t>(over_replicas(
                                                              plan, Pass::kBackward, pack_count)) *
                                                          plan.layout.stages()))},
                  {"makespan", fmt::format("{} {}", human_duration(predicted.makespan),
                                           time_range(known_error(cost)))},
                  {"speed", speed_text(figures_of(step, cost))},
                  {"bubble", human_share(predicted.bubble_ratio)},
                  {"lower bound", fmt::format("{} (gap {})", human_duration(step.lower_bound),
                                              human_share(step.gap()))}};
  rows.emplace_back("known error", describe(known_error(cost)));
  if (cost.trained) rows.emplace_back("model", describe(model_parameters(cost)));
  if (const std::int64_t exchanges = exchange_count(step); exchanges > 0)
    rows.emplace_back("context exchanges", grouped(exchanges));
  const Bytes host = host_need(step, cost);
  if (host > Bytes(0))
    rows.emplace_back("pinned host memory", fmt::format("{} of a rank", human_bytes(host)));
  return rows;
}

std::string step_report(const RatedPlan& step, const Costs& cost, const ReportRows& rows,
                        int columns) {
  Table summary({{"", Align::kLeft}, {"", Align::kLeft}});
  for (const auto& [name, value] : rows) summary.add_row({name, value});
  const char* const first = step.plan.layout.placement.stages_per_rank() > 1 ? "stages" : "stage";
  Table ranks({{first}, {"layers"}, {"busy"}, {"share"}, {"peak activation"}});
  const SimulationResult& predicted = step.prediction;
  const std::vector<Bytes> needs = rank_needs(step, cost);
  for (std::int32_t r = 0; r < step.plan.layout.ranks(); ++r) {
    const RankExtremes most = extremes_of(step, needs, r);
    const double share =
        predicted.makespan > Nanos(0) ? to_seconds(most.busy) / to_seconds(predicted.makespan) : 0;
    ranks.add_row({most.stages, fmt::to_string(most.layers), human_duration(most.busy),
                   human_share(share), human_bytes(most.peak)});
  }
  return summary.text(columns) + "\n" + ranks.text(columns);
}

nlohmann::json recompute_figures(const RecomputeByLayer& recompute) {
  nlohmann::json figures = nlohmann::json::object();
  for (const Recompute of_layer : all_recomputations()) {
    const auto layers = std::count(recompute.begin(), recompute.end(), of_layer);
    if (layers > 0) figures[std::string(to_string(of_layer))] = layers;
  }
  return figures;
}

nlohmann::json step_figures(const RatedPlan& step, const Costs& cost) {
  const PredictedFigures figures = figures_of(step, cost);
  const SimulationResult& predicted = step.prediction;
  nlohmann::json stages = nlohmann::json::array();
  const std::vector<Bytes> needs = rank_needs(step, cost);
  for (std::int32_t r = 0; r < step.plan.layout.ranks(); ++r) {
    const RankExtremes most = extremes_of(step, needs, r);
    stages.push_back({{"layers", most.layers},
                      {"busy_ns", most.busy.count()},
                      {"peak_activation_bytes", most.peak.count()}});
  }
  return {{"format", "slimpack-prediction"},
          {"version", 2},
          {"sequences", step.plan.lengths.size()},
          {"tokens", total_tokens(step.plan.lengths).count()},
          {"replicas", step.plan.replicas.size()},
          {"merged_sequences", merged_count(step.plan)},
          {"recompute", recompute_figures(step.plan.recompute)},
          {"host_bytes", host_need(step, cost).count()},
          {"split_backwards", split_count(step)},
          {"context_exchanges", exchange_count(step)},
          {"forward_packs", over_replicas(step.plan, Pass::kForward, pack_count)},
          {"backward_packs", over_replicas(step.plan, Pass::kBackward, pack_count)},
          {"forward_slices", over_replicas(step.plan, Pass::kForward, slice_count)},
          {"backward_slices", over_replicas(step.plan, Pass::kBackward, slice_count)},
          {"makespan_ns", predicted.makespan.count()},
          {"known_error", to_json(known_error(cost))},
          {"tokens_per_second", figures.tokens_per_second},
          {"mfu", figures.mfu ? nlohmann::json(*figures.mfu) : nlohmann::json()},
          {"bubble_ratio", predicted.bubble_ratio},
          {"lower_bound_ns", step.lower_bound.count()},
          {"gap", step.gap()},
          {"stages", std::move(stages)}};
}

}  // namespace slimpack
