// What several stages a rank are worth: the same steps with one, two, four and eight.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/published_cost.h"
#include "bench/planner/workloads.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr int kStagesPerRank[] = {1, 2, 4, 8};

class Stages {
 public:
  Stages(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("stages", 16),
        table_({{"step", Align::kLeft},
                {"stages a rank"},
                {"step ÷ work"},
                {"bubble"},
                {"peak"},
                {"MicroPacks F/B"},
                {"planned in"},
                {"nearest rival", Align::kLeft}}) {}

  void run() {
    const SequenceLengths lengths =
        real_lengths(options_.lengths, kSettingASequences, kSettingAContext);
    for (const int gigabytes : {0, 80}) setting_a(lengths, gigabytes);
    for (const std::int64_t context : {65'536, 262'144}) setting_b(Tokens(context));
    progress_.finish();
    report_.add_goal({"A at 80 GB with overheads, best stages a rank: step ÷ work",
                      best_["A, 80 GB"], Goal::Sense::kAtMost, 1.015, Unit::kRatio});
    report_.add_goal({"B at 64K, 512 sequences, best stages a rank: step ÷ work", best_["B, 64K"],
                      Goal::Sense::kAtMost, 1.035, Unit::kRatio});
    fmt::print(
        "\nSeveral stages a rank: settings A (with overheads) and B (means of {} seeds)\n\n{}",
        kSeeds, table_.text());
  }

 private:
  /// Means over steps that are planned alike.
  struct Means {
    double ratio = 0, bubble = 0, seconds = 0;
    Bytes peak;
    double forward = 0, backward = 0;
    int planned = 0;
    std::map<std::string, double> rivals;  ///< those within the cap in every step
  };

  void setting_a(const SequenceLengths& lengths, int gigabytes) {
    for (const int stages_per_rank : kStagesPerRank) {
      StepJob job = setting_a_job({lengths, true, gigabytes});
      job.job.layout = equal_stages(kSettingAStages, stages_per_rank);
      const double work = stage_work(job.cost, lengths, 32 / kSettingAStages);
      const std::string cap = gigabytes > 0 ? fmt::format("{} GB", gigabytes) : "no cap";
      Means means;
      add(means, fmt::format("stages/a/cap-{}", gigabytes), job, work);
      row("A, " + cap, stages_per_rank, means);
    }
  }

  void setting_b(Tokens context) {
    for (const int stages_per_rank : kStagesPerRank) {
      Means means;
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        StepJob job = setting_b_job({seed, 512, context});
        job.job.layout = equal_stages(kSettingBStages, stages_per_rank);
        const double work =
            stage_work(job.cost, job.lengths, 32 / kSettingBStages) / kSettingBReplicas;
        add(means, fmt::format("stages/b/{}/seed-{}", in_k(context), seed), job, work);
      }
      row(fmt::format("B, {}", in_k(context)), stages_per_rank, means);
    }
  }

  void add(Means& means, const std::string& name, StepJob job, double work) {
    job.choices.effort = options_.effort;
    const RatedStep step = rated(job);
    const std::int32_t stages_per_rank = job.job.layout.placement.stages_per_rank();
    if (!step.step) return report_.add(name, step, {{"stages_per_rank", stages_per_rank}});
    const StepFigures& f = step.figures;
    const double ratio = static_cast<double>(f.makespan.count()) / work;
    ++means.planned;
    means.ratio += ratio;
    means.bubble += f.bubble;
    means.seconds += step.planning_seconds;
    means.peak = std::max(means.peak, f.peak);
    means.forward += static_cast<double>(f.forward_packs);
    means.backward += static_cast<double>(f.backward_packs);
    report_.add(name, step, {{"step_over_work", ratio}, {"stages_per_rank", stages_per_rank}});
    add_rivals(means, name, job, work);
  }

  /// Tuned, with as many stages a rank.
  void add_rivals(Means& means, const std::string& name, const StepJob& job, double work) {
    for (const Baseline& baseline : baselines()) {
      if (!baseline.interleaves) continue;
      const RatedStep rival = rated(baseline, job);
      const double ratio = static_cast<double>(rival.figures.makespan.count()) / work;
      const bool fits = !job.job.memory_cap || rival.figures.peak <= *job.job.memory_cap;
      means.rivals[std::string(baseline.name)] +=
          fits ? ratio : std::numeric_limits<double>::infinity();
      report_.add(name, rival,
                  {{"step_over_work", ratio},
                   {"stages_per_rank", job.job.layout.placement.stages_per_rank()},
                   {"fits", fits}});
    }
  }

  static std::string nearest(const Means& means) {
    const auto best =
        std::ranges::min_element(means.rivals, {}, [](const auto& rival) { return rival.second; });
    if (best == means.rivals.end() || std::isinf(best->second)) return "none fits";
    return fmt::format("{:.4f} {}", best->second / means.planned, best->first);
  }

  void row(const std::string& name, int stages_per_rank, const Means& means) {
    progress_.advance();
    const std::string stages = fmt::to_string(stages_per_rank);
    if (means.planned == 0) {
      table_.add_row({name, stages, "does not fit", "", "", "", "", ""});
      return;
    }
    const double n = means.planned;
    double& best = best_.try_emplace(name, means.ratio / n).first->second;
    best = std::min(best, means.ratio / n);
    table_.add_row({name, stages, fmt::format("{:.4f}", means.ratio / n),
                    text_of(means.bubble / n, Unit::kShare), human_bytes(means.peak),
                    fmt::format("{:.0f}/{:.0f}", means.forward / n, means.backward / n),
                    text_of(means.seconds / n, Unit::kSeconds), nearest(means)});
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_;
  Table table_;
  std::map<std::string, double> best_;  ///< by step: step ÷ work with the best stages a rank
};

}  // namespace

void run_stages(const BenchOptions& options, Report& report) {
  Stages(options, report).run();
}

}  // namespace slimpack::bench
