#include "bench/planner/cluster_jobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/planner/workloads.h"
#include "slimpack/base/error.h"
#include "slimpack/planner/activation_budget.h"

namespace slimpack::bench {
namespace {

constexpr std::int32_t kRanks = 256;

}  // namespace

std::vector<LengthList> cluster_lists(const std::filesystem::path& file) {
  SequenceLengths with_long = log_normal_lengths(1, kClusterSequences - 3, kClusterContext,
                                                 {.mean_of_log = 6.5, .deviation_of_log = 1.3});
  with_long.insert(with_long.end(), {Tokens(100'000), Tokens(170'000), Tokens(250'000)});
  return {{"real", real_lengths(file, kClusterSequences, kClusterContext)},
          {"three-long", std::move(with_long)},
          {"log-normal", log_normal_lengths(1, kClusterSequences, kClusterContext,
                                            {.mean_of_log = 7.0, .deviation_of_log = 1.6})},
          {"pareto", pareto_lengths(1, kClusterSequences, kClusterContext)}};
}

std::vector<ClusterLayout> cluster_layouts() {
  std::vector<ClusterLayout> layouts;
  for (const std::int32_t tp : {1, 2, 4, 8})
    for (const std::int32_t pp : {1, 2, 4, 8}) layouts.push_back({tp, pp, kRanks / (tp * pp)});
  return layouts;
}

std::optional<StepJob> cluster_job(std::string_view model, const ClusterLayout& layout,
                                   const SequenceLengths& lengths, Tokens context) {
  const Costs cost = cost_from_hardware(
      read_model_shape(repository_file(fmt::format("models/{}.json", model))), Dtype::kBf16,
      read_hardware(repository_file("hardware/h100.toml")), layout.tp, layout.dp);
  const std::int32_t merged = std::min(kClusterMerged, layout.dp);
  StepJob out{cost,
              {.layout = balanced_layout(cost, lengths, layout.pp),
               .replicas = layout.dp,
               .context = context},
              lengths,
              {.most_merged = merged,
               .backward = BackwardKind::kSplit,
               .solver = SolverKind::kAuto,
               .recompute = known_recomputations(cost),
               .mixed_recompute = true}};
  const auto budget = activation_budget(cost, out.job.layout, layout.dp, merged);
  if (budget->available() < Bytes(1)) return std::nullopt;
  out.job.memory_cap = budget->available();
  return out;
}

}  // namespace slimpack::bench
