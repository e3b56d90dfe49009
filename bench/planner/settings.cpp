// Setting A: the first 512 real lengths truncated at 65,536, without and with overheads.
// Setting B: 32 tensor-parallel nodes in 8 replicas, for several contexts and numbers of sequences.
// The ideal step is work ÷ replicas: no overhead, no bubble, nothing uneven.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/planner/jobs.h"
#include "bench/planner/lengths.h"
#include "bench/planner/parts.h"
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

constexpr std::int32_t kLayers = 32 / kSettingBStages;

/// Figures of one context and number of sequences, over all seeds.
struct Summary {
  double mean = 0, worst = 0;   ///< step ÷ ideal
  double whole = 0;             ///< mean of step ÷ ideal with whole backwards
  double bound = 0;             ///< mean of lower bound ÷ ideal
  double longest = 0;           ///< most of the longest sequence's work ÷ a replica's share
  double seconds = 0;           ///< mean of planning
  int merging = 0, failed = 0;  ///< seeds
  /// By baseline, without a memory cap: how many times as fast we are, geometric mean.
  std::vector<double> speedups = std::vector<double>(baselines().size());
};

class SettingB {
 public:
  SettingB(const BenchOptions& options, Report& report)
      : effort_(options.effort), report_(report), progress_("setting B", 9 * kSeeds) {}

  void run() {
    Table table({{"context"},
                 {"sequences"},
                 {"step ÷ ideal, mean"},
                 {"worst"},
                 {"with whole backwards"},
                 {"bound ÷ ideal"},
                 {"longest ÷ share"},
                 {"seeds that merge"},
                 {"planned in"}});
    std::vector<Column> columns{{"context"}, {"sequences"}};
    for (const Baseline& baseline : baselines()) columns.push_back({std::string(baseline.name)});
    Table speedups(std::move(columns));
    double mean = 0, worst = 0;
    for (const std::size_t sequences : {512, 1024, 2048})
      for (const std::int64_t context : {65'536, 131'072, 262'144}) {
        const Summary s = seeds(sequences, Tokens(context));
        table.add_row({in_k(Tokens(context)), fmt::format("{}", sequences),
                       text_of(s.mean, Unit::kRatio), text_of(s.worst, Unit::kRatio),
                       text_of(s.whole, Unit::kRatio), text_of(s.bound, Unit::kRatio),
                       fmt::format("{:.2f}", s.longest), fmt::format("{}", s.merging),
                       text_of(s.seconds, Unit::kSeconds)});
        std::vector<std::string> row{in_k(Tokens(context)), fmt::format("{}", sequences)};
        for (const double speedup : s.speedups) row.push_back(fmt::format("{:.2f} ×", speedup));
        speedups.add_row(std::move(row));
        failed_ += s.failed;
        if (sequences != 512) continue;
        mean += s.mean / 3;
        worst = std::max(worst, s.worst);
      }
    progress_.finish();
    fmt::print(
        "\nSetting B: pp {} × dp {} × tp 8, seeds 1 to {}, merging up to 8 replicas{}\n\n{}\n"
        "How many times as fast we are\n\n{}",
        kSettingBStages, kSettingBReplicas, kSeeds,
        failed_ > 0 ? fmt::format("; {} steps did not fit and are left out", failed_) : "",
        table.text(), speedups.text());
    report_.add_goal(
        {"B: mean step ÷ ideal, 512 sequences", mean, Goal::Sense::kAtMost, 1.05, Unit::kRatio});
    report_.add_goal(
        {"B: worst step ÷ ideal, 512 sequences", worst, Goal::Sense::kAtMost, 1.10, Unit::kRatio});
  }

 private:
  Summary seeds(std::size_t sequences, Tokens context) {
    Summary s;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      step(s, seed, sequences, context);
      progress_.advance();
    }
    const int planned = std::max(1, kSeeds - s.failed);
    s.mean /= planned;
    s.whole /= planned;
    s.bound /= planned;
    for (double& speedup : s.speedups) speedup = std::exp(speedup / planned);
    s.seconds /= kSeeds;
    return s;
  }

  void step(Summary& s, int seed, std::size_t sequences, Tokens context) {
    StepJob job = setting_b_job({static_cast<std::uint64_t>(seed), sequences, context});
    const Costs& cost = job.cost;
    const double ideal = stage_work(cost, job.lengths, kLayers) / kSettingBReplicas;
    const auto of_ideal = [&](Nanos time) { return static_cast<double>(time.count()) / ideal; };
    const std::string name = fmt::format("b/{}/{}/seed-{}", in_k(context), sequences, seed);

    StepJob unlimited = job;
    unlimited.job.memory_cap.reset();
    unlimited.choices.most_merged = 1;
    std::vector<Nanos> makespans;
    for (const Baseline& baseline : baselines()) {
      const RatedStep other = rated(baseline, unlimited);
      report_.add(name, other, {{"step_over_ideal", of_ideal(other.figures.makespan)}});
      makespans.push_back(other.figures.makespan);
    }

    const Tokens longest = *std::ranges::max_element(job.lengths);
    job.choices.effort = effort_;
    const RatedStep ours = rated(job);
    job.choices.backward = BackwardKind::kWhole;
    const RatedStep whole = rated(job);
    s.seconds += ours.planning_seconds;
    s.longest = std::max(s.longest, stage_work(cost, {longest}, kLayers) / ideal);
    if (!ours.step || !whole.step) {
      ++s.failed;
      report_.add(name, ours);
      return;
    }
    const double ratio = of_ideal(ours.figures.makespan);
    s.mean += ratio;
    s.whole += of_ideal(whole.figures.makespan);
    s.worst = std::max(s.worst, ratio);
    s.bound += of_ideal(ours.figures.lower_bound);
    for (std::size_t k = 0; k < makespans.size(); ++k)
      s.speedups[k] += std::log(of_ideal(makespans[k]) / ratio);
    s.merging += ours.figures.merged_packs > 0 ? 1 : 0;
    report_.add(name, ours, {{"step_over_ideal", ratio}});
  }

  std::int32_t effort_;
  Report& report_;
  PartProgress progress_;
  int failed_ = 0;
};

}  // namespace

void run_setting_a(const BenchOptions& options, Report& report) {
  SettingA(options, report).run();
}

void run_setting_b(const BenchOptions& options, Report& report) {
  SettingB(options, report).run();
}

}  // namespace slimpack::bench
