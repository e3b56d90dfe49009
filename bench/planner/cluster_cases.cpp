#include "bench/planner/cluster_cases.h"

#include <utility>

#include "bench/planner/lengths.h"

namespace slimpack::bench {

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

std::vector<Grid> cluster_layouts() {
  std::vector<Grid> layouts;
  for (const std::int32_t tp : {1, 2, 4, 8})
    for (const std::int32_t pp : {1, 2, 4, 8}) layouts.push_back({tp, pp, 256 / (tp * pp)});
  return layouts;
}

}  // namespace slimpack::bench
