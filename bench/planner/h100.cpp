// H100 nodes: Llama-3 and Qwen3 models on tp 8 × pp 4 × dp 8 against every baseline. All get the
// same sequences, layers per stage, choice of recomputation and memory for activations; what a
// baseline holds beyond that is marked and its time is still compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr std::string_view kReference = "best-fit";
constexpr int kSeeds = 3;

/// One planner over the seeds of a case.
struct Compared {
  double log_speedup = 0;  ///< of ours over it, summed
  double bubble = 0;       ///< summed
  int above_cap = 0;       ///< seeds
};

class H100 {
 public:
  H100(const BenchOptions& options, Report& report)
      : effort_(options.effort), report_(report), progress_("H100", 3 * 3 * 3 * kSeeds) {}

  void run() {
    std::string text;
    for (const char* model : {"llama-3-8b", "qwen3-32b", "llama-3-70b"}) {
      cost_ = h100_cost(model);
      model_ = model;
      text += fmt::format("\n{}\n\n{}", model, tables());
    }
    progress_.finish();
    fmt::print(
        "\nH100: tp {} × pp {} × dp {}, means of {} seeds. First line of a case: bubble; second: "
        "how many times as fast we are. ! = above the memory for activations with a seed\n{}",
        kH100Tensor, kH100Stages, kH100Replicas, kSeeds, text);
    report_.add_goal({"H100: speed-up over best-fit, 256K, 512 sequences, least of three models",
                      least_speedup_, Goal::Sense::kAtLeast, 4, Unit::kRatio});
    report_.add_goal({"H100: fewer bubbles than best-fit there, least of three models",
                      least_fewer_, Goal::Sense::kAtLeast, 0.94, Unit::kShare});
  }

 private:
  std::string tables() {
    std::vector<Column> columns{{"context"}, {"sequences"}, {"slimpack"}};
    for (const Baseline& baseline : baselines()) columns.push_back({std::string(baseline.name)});
    columns.push_back({"fewer bubbles"});
    Table table(std::move(columns));
    for (const std::int64_t context : {65'536, 131'072, 262'144})
      for (const std::size_t sequences : {512, 1024, 2048})
        add_case(table, Tokens(context), sequences);
    return table.text();
  }

  void add_case(Table& table, Tokens context, std::size_t sequences) {
    std::map<std::string, Compared, std::less<>> by_planner;
    int failed = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      if (!compare(by_planner, context, sequences, seed)) ++failed;
      progress_.advance();
    }
    const int seeds = kSeeds - failed;
    std::vector<std::string> bubbles{in_k(context), fmt::format("{}", sequences)};
    std::vector<std::string> speedups{"", ""};
    if (seeds == 0) {
      bubbles.resize(4 + baselines().size());
      bubbles[2] = "does not fit";
      table.add_row(bubbles);
      return;
    }
    const double ours = by_planner["slimpack"].bubble / seeds;
    bubbles.push_back(human_share(ours));
    speedups.push_back(failed > 0 ? fmt::format("{} do not fit", failed) : "");
    for (const Baseline& baseline : baselines()) {
      const Compared& c = by_planner.find(baseline.name)->second;
      bubbles.push_back(human_share(c.bubble / seeds) + (c.above_cap > 0 ? " !" : ""));
      speedups.push_back(fmt::format("{:.2f} ×", std::exp(c.log_speedup / seeds)));
    }
    const Compared& reference = by_planner.find(kReference)->second;
    const double fewer = 1 - ours / (reference.bubble / seeds);
    bubbles.push_back(human_share(fewer));
    speedups.emplace_back();
    table.add_row(std::move(bubbles));
    table.add_row(std::move(speedups));
    if (context != Tokens(262'144) || sequences != 512) return;
    least_speedup_ = std::min(least_speedup_, std::exp(reference.log_speedup / seeds));
    least_fewer_ = std::min(least_fewer_, fewer);
  }

  /// One seed of a case; false when ours does not fit.
  bool compare(std::map<std::string, Compared, std::less<>>& by_planner, Tokens context,
               std::size_t sequences, int seed) {
    StepJob job = h100_job(cost_, {static_cast<std::uint64_t>(seed), sequences, context});
    job.choices.effort = effort_;
    const std::string name =
        fmt::format("h100/{}/{}/{}/seed-{}", model_, in_k(context), sequences, seed);
    const RatedStep ours = rated(job);
    add(name, ours, job, ours.figures.makespan);
    if (!ours.step) return false;
    by_planner["slimpack"].bubble += ours.figures.bubble;
    for (const Baseline& baseline : baselines()) {
      const RatedStep theirs = rated(baseline, job);
      add(name, theirs, job, ours.figures.makespan);
      Compared& c = by_planner[theirs.planner];
      c.bubble += theirs.figures.bubble;
      c.log_speedup +=
          std::log(to_seconds(theirs.figures.makespan) / to_seconds(ours.figures.makespan));
      c.above_cap += theirs.figures.peak > *job.job.memory_cap ? 1 : 0;
    }
    return true;
  }

  void add(const std::string& name, const RatedStep& step, const StepJob& job, Nanos ours) {
    nlohmann::json more{{"memory_cap_bytes", job.job.memory_cap->count()}};
    if (step.step) {
      const double seconds = to_seconds(step.figures.makespan);
      more["recompute"] = describe(step.step->plan.recompute);
      more["fits"] = step.figures.peak <= *job.job.memory_cap;
      more["speedup_of_slimpack"] = seconds / to_seconds(ours);
      more["mfu"] = model_flops(cost_.shape, job.lengths).count() /
                    (seconds * kH100Tensor * kH100Stages * kH100Replicas * cost_.peak_flops);
    }
    report_.add(name, step, more);
  }

  Costs cost_;
  std::string model_;
  std::int32_t effort_;
  Report& report_;
  PartProgress progress_;
  double least_speedup_ = 1e9;
  double least_fewer_ = 1;
};

}  // namespace

void run_h100(const BenchOptions& options, Report& report) {
  H100(options, report).run();
}

}  // namespace slimpack::bench
