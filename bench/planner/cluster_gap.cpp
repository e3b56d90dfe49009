// Cluster gap: Llama-3-8B on 256 H100s in sixteen layouts, 512 documents of four lists; how far
// each plan is from the lower bound of any plan.
#include <fmt/format.h>

#include <algorithm>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/workloads.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr std::int32_t kRanks = 256;
constexpr Tokens kContext{262'144};
constexpr std::int32_t kDegrees[] = {1, 2, 4, 8};
constexpr std::size_t kSequences = 512;

class ClusterGap {
 public:
  ClusterGap(const BenchOptions& options, Report& report) : options_(options), report_(report) {}

  void run() {
    Table table({{"list", Align::kLeft}, {"tp"}, {"pp 1"}, {"pp 2"}, {"pp 4"}, {"pp 8"}});
    for (const ClusterList list : kClusterLists) {
      const SequenceLengths lengths =
          cluster_lengths(list, options_.lengths, kSequences, kContext);
      for (const std::int32_t tp : kDegrees) {
        std::vector<std::string> row{std::string(to_string(list)), fmt::format("{}", tp)};
        for (const std::int32_t pp : kDegrees)
          row.push_back(rate(list, lengths, {tp, pp, kRanks / (tp * pp)}));
        table.add_row(std::move(row));
      }
    }
    progress_.finish();
    fmt::print("\nGap to the lower bound: Llama-3-8B on {} H100s, {} documents of up to 256K\n\n{}",
               kRanks, kSequences, table.text());
    report_.add_goal(
        {"cluster gap: worst of 64 cases", worst_, Goal::Sense::kAtMost, 0.10, Unit::kShare});
    report_.add_goal({"cluster gap: cases that do not fit, or break rules",
                      static_cast<double>(failed_), Goal::Sense::kAtMost, 0, Unit::kCount});
  }

 private:
  /// "gap, step".
  std::string rate(ClusterList list, const SequenceLengths& lengths, const Grid& grid) {
    auto job = grid_job(grid_cost("llama-3-8b", grid), grid, lengths, kContext);
    progress_.advance();
    if (!job) return "no memory";
    job->choices.effort = options_.effort;
    const RatedStep step = rated(*job);
    report_.add(fmt::format("cluster_gap/{}/tp-{}/pp-{}", to_string(list), grid.tp, grid.pp), step,
                {{"dp", grid.dp}});
    if (!step.step || !violations(*step.step, job->cost, job->job.memory_cap).empty()) {
      ++failed_;
      return step.step ? "broken" : "does not fit";
    }
    worst_ = std::max(worst_, step.figures.gap);
    return fmt::format("{}, {}", human_share(step.figures.gap),
                       human_duration(step.figures.makespan));
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_{"cluster gap", std::size(kClusterLists) * std::size(kDegrees) * std::size(kDegrees)};
  double worst_ = 0;
  int failed_ = 0;
};

}  // namespace

void run_cluster_gap(const BenchOptions& options, Report& report) {
  ClusterGap(options, report).run();
}

}  // namespace slimpack::bench
