// Runs a file's steps with ranks as processes, which Python connects (tests/processes).
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/process_job.h"
#include "tests/packflow/step/driven_step.h"

namespace nb = nanobind;

using slimpack::RankGrid;
using slimpack::RankGroup;
using slimpack::StagePlacement;

NB_MODULE(process_driver, m) {
  nb::class_<RankGrid>(m, "RankGrid")
      .def(
          "__init__",
          [](RankGrid* grid, std::int32_t pipeline, std::int32_t replicas, std::int32_t tensor,
             std::int32_t stages_per_rank, bool turns_back, bool spread_vocabulary,
             bool exchange_context) {
            const auto style =
                turns_back ? slimpack::PlacementStyle::kV : slimpack::PlacementStyle::kLoop;
            new (grid) RankGrid{pipeline,
                                replicas,
                                tensor,
                                StagePlacement::of(style, pipeline, stages_per_rank),
                                spread_vocabulary,
                                exchange_context};
          },
          nb::arg("pipeline"), nb::arg("replicas"), nb::arg("tensor"), nb::arg("stages_per_rank"),
          nb::arg("turns_back"), nb::arg("spread_vocabulary"), nb::arg("exchange_context"));
  // On nodes of so many ranks.
  m.def("on_nodes", [](RankGrid grid, std::int32_t ranks_per_node, bool route) {
    grid.ranks_per_node = ranks_per_node;
    grid.route = route;
    return grid;
  });
  m.def("group_ranks", [](const RankGrid& grid, std::int32_t rank) {
    std::vector<std::vector<std::int32_t>> out;
    for (const RankGroup& group : process_groups(grid, rank)) {
      auto& ranks = out.emplace_back();
      for (std::int32_t member = 0; member < group.size; ++member)
        ranks.push_back(group.rank(member));
    }
    return out;
  });
  m.def(
      "run",
      [](const std::string& file, const RankGrid& grid, std::int32_t rank,
         const std::vector<std::string>& names, bool same_bits) {
        std::map<RankGroup, std::string> by_group;
        const std::vector<RankGroup> groups = process_groups(grid, rank);
        for (std::size_t g = 0; g < groups.size(); ++g) by_group.emplace(groups[g], names.at(g));
        slimpack::ProcessJob job(
            grid, rank, by_group, [] { return false; }, slimpack::Nanos(60'000'000'000),
            slimpack::gradient_sums(same_bits));
        slimpack::testing::run_driven_step(file, &job);
        static_cast<void>(job.make_world());  // nobody leaves before all have what they wait for
      },
      nb::call_guard<nb::gil_scoped_release>());
}
