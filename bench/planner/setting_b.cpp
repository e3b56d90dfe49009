// Setting B: 32 tensor-parallel nodes in 8 replicas, for several contexts and numbers of sequences.
// The ideal step is work ÷ replicas: no overhead, no bubble, nothing uneven.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/published_cost.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr std::int32_t kLayers = 32 / kSettingBStages;

/// Of one context and number of sequences.
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

void run_setting_b(const BenchOptions& options, Report& report) {
  SettingB(options, report).run();
}

}  // namespace slimpack::bench
