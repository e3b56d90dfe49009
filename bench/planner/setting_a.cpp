// Setting A: the first 512 real lengths truncated at 65,536, without and with overheads.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/published_cost.h"
#include "bench/planner/workloads.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

class SettingA {
 public:
  SettingA(const BenchOptions& options, Report& report)
      : options_(options),
        lengths_(real_lengths(options.lengths, kSettingASequences, kSettingAContext)),
        report_(report),
        progress_("setting A", 8 + 2 * static_cast<std::int64_t>(baselines().size())),
        table_({{"planner", Align::kLeft},
                {"overheads", Align::kLeft},
                {"cap"},
                {"worst bubble"},
                {"step ÷ work"},
                {"peak"},
                {"MicroPacks F/B"},
                {"gap"},
                {"planned in"}}) {}

  void run() {
    for (const bool overheads : {false, true}) {
      for (const int gigabytes : {80, 90, 100, 0}) ours(overheads, gigabytes);
      const StepJob job = setting_a_job({lengths_, overheads});
      for (const Baseline& baseline : baselines())
        add(rated(baseline, job), job.cost, overheads, 0);
    }
    progress_.finish();
    report_.add_goal({"A: step ÷ work with overheads, worst of four caps", worst_ratio_,
                      Goal::Sense::kAtMost, 1.025, Unit::kRatio});
    fmt::print("\nSetting A: {} real documents, {} tokens, pp {}\n\n{}", kSettingASequences,
               grouped(total_tokens(lengths_).count()), kSettingAStages, table_.text());
  }

 private:
  void ours(bool overheads, int gigabytes) {
    StepJob job = setting_a_job({lengths_, overheads, gigabytes});
    job.choices.effort = options_.effort;
    const Costs& cost = job.cost;
    const RatedStep step = rated(job, options_.repetitions);
    add(step, cost, overheads, gigabytes);
    const double bubble = step.step ? step.figures.worst_bubble : 1;
    if (overheads) worst_ratio_ = std::max(worst_ratio_, ratio(step, cost));
    if (overheads || (gigabytes != 80 && gigabytes != 100)) return;
    report_.add_goal({fmt::format("A: worst stage's bubble at {} GB", gigabytes), bubble,
                      Goal::Sense::kAtMost, gigabytes == 80 ? 0.010 : 0.003, Unit::kShare});
  }

  /// Step ÷ work of a stage; of no step, as if it took forever.
  [[nodiscard]] double ratio(const RatedStep& step, const Costs& cost) const {
    if (!step.step) return 1e9;
    return static_cast<double>(step.figures.makespan.count()) /
           stage_work(cost, lengths_, 32 / kSettingAStages);
  }

  void add(const RatedStep& step, const Costs& cost, bool overheads, int gigabytes) {
    const std::string cap = gigabytes > 0 ? fmt::format("{} GB", gigabytes) : "none";
    const std::string name =
        fmt::format("a/{}/cap-{}", overheads ? "overheads" : "plain", gigabytes);
    const char* with = overheads ? "60/120 µs" : "none";
    progress_.advance();
    if (!step.step) {
      table_.add_row({step.planner, with, cap, step.error, "", "", "", "", ""});
      report_.add(name, step);
      return;
    }
    const StepFigures& f = step.figures;
    const double of_work = ratio(step, cost);
    table_.add_row({step.planner, with, cap, text_of(f.worst_bubble, Unit::kShare),
                    fmt::format("{:.4f}", of_work),
                    fmt::format("{:.1f} GB", static_cast<double>(f.peak.count()) / kGigabyte),
                    fmt::format("{}/{}", f.forward_packs, f.backward_packs),
                    text_of(f.gap, Unit::kShare), text_of(step.planning_seconds, Unit::kSeconds)});
    report_.add(name, step, {{"step_over_work", of_work}});
  }

  const BenchOptions& options_;
  SequenceLengths lengths_;
  Report& report_;
  PartProgress progress_;
  Table table_;
  double worst_ratio_ = 0;  ///< with overheads
};

}  // namespace

void run_setting_a(const BenchOptions& options, Report& report) {
  SettingA(options, report).run();
}

}  // namespace slimpack::bench
