#include "apps/slimpack/plan_report.h"

#include <fmt/format.h>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {
namespace {

std::size_t slice_count(const std::vector<MicroPack>& packs) {
  std::size_t count = 0;
  for (const MicroPack& pack : packs) count += pack.slices.size();
  return count;
}

std::string both_passes(std::size_t forward, std::size_t backward) {
  return fmt::format("{} forward, {} backward", grouped(static_cast<std::int64_t>(forward)),
                     grouped(static_cast<std::int64_t>(backward)));
}

}  // namespace

ReportRows step_rows(const PlannedStep& step) {
  const PackPlan& packs = step.plan.replicas.front().packs;
  const SimulationResult& predicted = step.prediction;
  return {{"sequences", grouped(static_cast<std::int64_t>(step.plan.lengths.size()))},
          {"tokens", grouped(total_tokens(step.plan.lengths).count())},
          {"MicroPacks", both_passes(packs.forward.size(), packs.backward.size())},
          {"slices", both_passes(slice_count(packs.forward), slice_count(packs.backward))},
          {"makespan", human_duration(predicted.makespan)},
          {"bubble", human_share(predicted.bubble_ratio)},
          {"lower bound", fmt::format("{} (gap {})", human_duration(predicted.lower_bound),
                                      human_share(predicted.gap()))}};
}

std::string step_report(const PlannedStep& step, const ReportRows& rows) {
  Table summary({{"", Align::kLeft}, {"", Align::kLeft}});
  for (const auto& [name, value] : rows) summary.add_row({name, value});
  Table stages({{"stage"}, {"layers"}, {"busy"}, {"share"}, {"peak activation"}});
  const SimulationResult& predicted = step.prediction;
  for (std::int32_t s = 0; s < step.plan.layout.stages(); ++s) {
    const StageId stage(s);
    const Nanos busy = predicted.busy[stage.index()];
    const double share =
        predicted.makespan > Nanos(0) ? to_seconds(busy) / to_seconds(predicted.makespan) : 0;
    stages.add_row({fmt::to_string(s), fmt::to_string(step.plan.layout.layers(stage)),
                    human_duration(busy), human_share(share),
                    human_bytes(predicted.peak_activation[stage.index()])});
  }
  return summary.text() + "\n" + stages.text();
}

nlohmann::json step_figures(const PlannedStep& step) {
  const PackPlan& packs = step.plan.replicas.front().packs;
  const SimulationResult& predicted = step.prediction;
  nlohmann::json stages = nlohmann::json::array();
  for (std::int32_t s = 0; s < step.plan.layout.stages(); ++s)
    stages.push_back(
        {{"layers", step.plan.layout.layers(StageId(s))},
         {"busy_ns", predicted.busy[StageId(s).index()].count()},
         {"peak_activation_bytes", predicted.peak_activation[StageId(s).index()].count()}});
  return {{"format", "slimpack-prediction"},
          {"version", 1},
          {"sequences", step.plan.lengths.size()},
          {"tokens", total_tokens(step.plan.lengths).count()},
          {"forward_packs", packs.forward.size()},
          {"backward_packs", packs.backward.size()},
          {"forward_slices", slice_count(packs.forward)},
          {"backward_slices", slice_count(packs.backward)},
          {"makespan_ns", predicted.makespan.count()},
          {"bubble_ratio", predicted.bubble_ratio},
          {"lower_bound_ns", predicted.lower_bound.count()},
          {"gap", predicted.gap()},
          {"stages", std::move(stages)}};
}

}  // namespace slimpack
