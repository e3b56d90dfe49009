// How long planning takes beside the step that it plans, with every option on: Llama-3-8B and 70B
// on 256 H100s in every usual layout, and steps of many documents.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bench/planner/cluster_cases.h"
#include "bench/planner/jobs.h"
#include "bench/planner/lengths.h"
#include "bench/planner/parts.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

/// A step of many log-normal documents of at most 65,536 tokens, and the seconds allowed for it.
struct LargeStep {
  std::size_t sequences;
  Grid layout;
  double limit;
};
constexpr std::array kLargeSteps = {
    LargeStep{4096, {1, 8, 64}, 0.3},  LargeStep{5000, {8, 2, 1}, 0.4},
    LargeStep{20'000, {8, 2, 1}, 1.5}, LargeStep{100'000, {8, 2, 1}, 8},
    LargeStep{100'000, {1, 4, 64}, 2}, LargeStep{100'000, {1, 4, 1250}, 5}};
constexpr Tokens kLargeContext{65'536};

double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

class Planning {
 public:
  Planning(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        lists_(cluster_lists(options.lengths)),
        progress_("planning", static_cast<std::int64_t>(kClusterModels.size() * lists_.size() *
                                                            cluster_layouts().size() +
                                                        kLargeSteps.size())),
        table_(
            {{"case", Align::kLeft}, {"step"}, {"planned in"}, {"processor"}, {"share"}, {"gap"}}) {
  }

  void run() {
    for (const char* model : kClusterModels)
      for (const LengthList& list : lists_)
        for (const Grid& layout : cluster_layouts()) cluster(model, list, layout);
    for (const LargeStep& step : kLargeSteps) large(step);
    progress_.finish();
    fmt::print(
        "\nPlanning: all options on, best of {} runs; ! = does not fit. Cluster cases are {} "
        "documents of at most {} tokens on 256 ranks\n\n{}",
        options_.repetitions, kClusterSequences, grouped(kClusterContext.count()), table_.text());
    report_.add_goal({"planning: share of the step, worst cluster case", worst_share_,
                      Goal::Sense::kAtMost, 0.1, Unit::kShare});
    report_.add_goal({"planning: a cluster case, worst", worst_seconds_, Goal::Sense::kAtMost, 0.1,
                      Unit::kSeconds});
    report_.add_goal({"planning: gap to the bound, worst cluster case", worst_gap_,
                      Goal::Sense::kAtMost, 0.1, Unit::kShare});
    report_.add_goal(
        {"planning: peak memory in GB", peak_gigabytes(), Goal::Sense::kAtMost, 2, Unit::kRatio});
    report_.add_goal({"planning: broken rules", static_cast<double>(violations_),
                      Goal::Sense::kAtMost, 0, Unit::kCount});
  }

 private:
  void cluster(const std::string& model, const LengthList& list, const Grid& layout) {
    progress_.advance();
    const std::string name =
        fmt::format("planning/{}/{}/tp{}-pp{}", model, list.name, layout.tp, layout.pp);
    if (!wanted(name)) return;
    const auto job = grid_job(grid_cost(model, layout), layout, list.lengths, kClusterContext);
    if (const auto step = job ? planned(name, *job) : std::nullopt) {
      const double seconds = step->best_planning_seconds;
      worst_seconds_ = std::max(worst_seconds_, seconds);
      worst_gap_ = std::max(worst_gap_, step->figures.gap);
      worst_share_ = std::max(worst_share_, seconds / to_seconds(step->figures.makespan));
    }
  }

  [[nodiscard]] bool wanted(const std::string& name) const {
    return name.find(options_.cases) != std::string::npos;
  }

  void large(const LargeStep& large) {
    progress_.advance();
    const std::string name = fmt::format("planning/large/{}/pp{}-dp{}", large.sequences,
                                         large.layout.pp, large.layout.dp);
    if (!wanted(name)) return;
    const auto job = grid_job(grid_cost("llama-3-8b", large.layout), large.layout,
                              log_normal_lengths(1, large.sequences, kLargeContext), kLargeContext);
    const auto step = planned(name, *job);
    report_.add_goal({fmt::format("planning: {} documents on pp {} × dp {}", large.sequences,
                                  large.layout.pp, large.layout.dp),
                      step ? step->best_planning_seconds : 0, Goal::Sense::kAtMost, large.limit,
                      Unit::kSeconds});
  }

  std::optional<RatedStep> planned(const std::string& name, StepJob job) {
    job.choices.effort = options_.effort;
    RatedStep step = rated(job, options_.repetitions);
    const double seconds = step.best_planning_seconds;
    nlohmann::json more{{"best_planning_seconds", seconds},
                        {"processor_seconds", step.processor_seconds}};
    if (!step.step) {
      table_.add_row({name, "!", text_of(seconds, Unit::kSeconds), "", "", ""});
      report_.add(name, step, more);
      return std::nullopt;
    }
    violations_ += violations(*step.step, job.cost, job.job.memory_cap).size();
    const double makespan = to_seconds(step.figures.makespan);
    table_.add_row({name, text_of(makespan, Unit::kSeconds), text_of(seconds, Unit::kSeconds),
                    text_of(step.processor_seconds, Unit::kSeconds),
                    text_of(seconds / makespan, Unit::kShare),
                    text_of(step.figures.gap, Unit::kShare)});
    more["share_of_step"] = seconds / makespan;
    more["recompute"] = describe(step.step->plan.recompute);
    more["baseline"] = step.step->baseline;
    more["memory_cap_bytes"] = job.job.memory_cap->count();
    report_.add(name, step, more);
    return step;
  }

  const BenchOptions& options_;
  Report& report_;
  std::vector<LengthList> lists_;
  PartProgress progress_;
  Table table_;
  double worst_share_ = 0;
  double worst_seconds_ = 0;
  double worst_gap_ = 0;
  std::size_t violations_ = 0;
};

}  // namespace

void run_planning(const BenchOptions& options, Report& report) {
  Planning(options, report).run();
}

}  // namespace slimpack::bench
