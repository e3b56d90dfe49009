// How well the simulator predicts steps of the runtime: thirty workloads, each under ten plans.
//  - Makespan: measured, against the simulation with every action at its median over the
//    repetitions (replayed), and against the prediction from a profile of this machine.
//  - Peak activations of every rank, measured and predicted.
//  - Choice: of the ten plans, how much longer the one with the shortest prediction takes than the
//    best one. Steps are replayed, so that the machine's speed does not decide. The measured times
//    are compared, too, with the plan that is best in the other repetitions, beside what a choice
//    by measurement loses itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/fidelity/workloads.h"
#include "bench/program.h"
#include "bench/real_steps.h"
#include "bench/statistics.h"
#include "bench/turns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/replay.h"

namespace slimpack::bench {
namespace {

struct Arguments {
  Tokens context{4096};
  Tokens step_tokens{8192};
  int repetitions = 3;
  int workloads = 30;  ///< of them, the first ones
  std::string json;
};

struct PlanKind {
  const char* name;
  Choices choices;
};

/// Plans that differ in the choices that users vary.
std::vector<PlanKind> plan_kinds(std::int32_t most_merged) {
  const auto granules = [](std::int64_t tokens) { return Choices{.granularity = Tokens(tokens)}; };
  const Choices plain = granules(128);
  std::vector<PlanKind> kinds{{"granularity 128", plain},
                              {"granularity 256", granules(256)},
                              {"granularity 512", granules(512)},
                              {"granularity 1024", granules(1024)},
                              {"symmetric", plain},
                              {"split", plain},
                              {"symmetric, split", plain},
                              {"effort 3, split", plain},
                              {"packed", plain},
                              {"slimpipe", plain}};
  kinds[4].choices.cuts = kinds[6].choices.cuts = CutsKind::kSymmetric;
  for (const std::size_t split : {5, 6, 7}) kinds[split].choices.backward = BackwardKind::kSplit;
  kinds[7].choices.effort = 3;
  kinds[8].choices.planner = PlannerKind::kPacked;
  kinds[9].choices.planner = PlannerKind::kSlimpipe;
  for (PlanKind& kind : kinds) kind.choices.most_merged = most_merged;
  return kinds;
}

/// A plan and what came of it.
struct RatedWay {
  double measured = 0;  ///< median over the repetitions, seconds
  double replayed = 0;
  double predicted = 0;

  [[nodiscard]] Compared replay() const { return {replayed, measured}; }
  [[nodiscard]] Compared prediction() const { return {predicted, measured}; }
};

struct Outcome {
  Workload workload;
  std::vector<std::string> names = {};
  std::vector<RatedWay> ways = {};
  std::size_t picked = 0;
  double loss = 0;                    ///< replayed, picked ÷ best − 1
  double held_out_loss = 0;           ///< measured
  double measuring_loss = 0;          ///< of the plan that is best in the other repetitions
  std::vector<Compared> memory = {};  ///< of every rank, under the plan that was picked
};

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : a_(arguments) {}

  [[nodiscard]] Outcome run(const Workload& workload) {
    const SequenceLengths lengths = lengths_of(workload, a_.step_tokens, a_.context);
    const StepTokens tokens = random_bytes(lengths, workload.seed);
    const Costs& cost = costs(workload);
    Engine engine({.shape = shape(workload),
                   .dtype = workload.dtype,
                   .layout = balanced_layout(cost, lengths, workload.pp),
                   .replicas = workload.dp,
                   .context = a_.context,
                   .pin_threads = workload.clock == ClockKind::kWall,
                   .clock = workload.clock});
    Outcome outcome{.workload = workload};
    std::vector<Way> ways;
    for (const PlanKind& kind : plan_kinds(workload.most_merged)) {
      PlanOutcome planned = plan_step(
          {{.layout = engine.options().layout, .replicas = workload.dp, .context = a_.context},
           lengths,
           kind.choices,
           cost});
      outcome.names.emplace_back(kind.name);
      ways.push_back({kind.name, &engine, *std::move(planned.step)});
    }
    run_in_turn(ways, tokens, TrainConfig(), a_.repetitions);
    rate(ways, cost, outcome);
    return outcome;
  }

 private:
  /// Four layers, or one for each rank.
  [[nodiscard]] Decoder shape(const Workload& w) const {
    return step_model(a_.context, std::max(4, w.pp));
  }

  /// The profile for all workloads of a clock and as many ranks at once, of a model, a number
  /// format and merging.
  const Costs& costs(const Workload& w) {
    const std::int32_t ranks = w.clock == ClockKind::kWall ? w.pp : processors();
    auto& cost = costs_[{w.clock, ranks, shape(w).num_layers(), w.dtype, w.most_merged}];
    if (!cost)
      cost = profile_costs({.shape = shape(w),
                            .dtype = w.dtype,
                            .context = a_.context,
                            .ranks = ranks,
                            .most_merged = w.most_merged,
                            .pin_threads = w.clock == ClockKind::kWall,
                            .clock = w.clock});
    return *cost;
  }

  static void rate(const std::vector<Way>& ways, const Costs& cost, Outcome& outcome) {
    for (const Way& way : ways)
      outcome.ways.push_back({median(way.all_seconds()),
                              to_seconds(replay(way.planned, cost, way.timelines()).makespan),
                              to_seconds(way.planned.prediction.makespan)});
    std::vector<Compared> choices;
    for (const RatedWay& way : outcome.ways) choices.push_back({way.predicted, way.replayed});
    outcome.picked = static_cast<std::size_t>(
        std::ranges::min_element(choices, {}, &Compared::predicted) - choices.begin());
    outcome.loss = choice_loss(choices);
    WayTurns seconds;
    for (const Way& way : ways) seconds.push_back(way.all_seconds());
    outcome.held_out_loss = held_out_loss(seconds, outcome.picked);
    outcome.measuring_loss = loss_of_measuring(seconds);
    const Way& picked = ways[outcome.picked];
    const std::vector<Bytes>& predicted = picked.planned.prediction.peak_activation;
    for (std::size_t rank = 0; rank < predicted.size(); ++rank) {
      std::vector<double> peaks;
      for (const StepResult& r : picked.results)
        peaks.push_back(static_cast<double>(r.timeline.peak_activation[rank].count()));
      outcome.memory.push_back({static_cast<double>(predicted[rank].count()), median(peaks)});
    }
  }

  const Arguments& a_;
  std::map<std::tuple<ClockKind, std::int32_t, std::int64_t, Dtype, std::int32_t>,
           std::optional<Costs>>
      costs_;
};

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

void add_row(Table& table, const Outcome& outcome) {
  const RatedWay& picked = outcome.ways[outcome.picked];
  table.add_row({outcome.workload.name(), fmt::format("{:.2f} s", picked.measured),
                 percent(picked.replay().error()), percent(picked.prediction().error()),
                 percent(errors_of(outcome.memory).worst), percent(outcome.loss)});
}

nlohmann::json to_json(const Outcome& outcome) {
  nlohmann::json plans = nlohmann::json::array();
  for (std::size_t i = 0; i < outcome.ways.size(); ++i)
    plans.push_back({{"plan", outcome.names[i]},
                     {"measured_seconds", outcome.ways[i].measured},
                     {"replayed_seconds", outcome.ways[i].replayed},
                     {"predicted_seconds", outcome.ways[i].predicted}});
  nlohmann::json memory = nlohmann::json::array();
  for (const Compared& rank : outcome.memory) memory.push_back(std::abs(rank.error()));
  return {{"workload", outcome.workload.name()},
          {"picked", outcome.names[outcome.picked]},
          {"loss", outcome.loss},
          {"held_out_loss", outcome.held_out_loss},
          {"loss_of_measuring", outcome.measuring_loss},
          {"memory_errors", memory},
          {"plans", plans}};
}

/// The share of workloads where a choice loses at most 2%.
double near_best(const std::vector<Outcome>& outcomes, double Outcome::*loss) {
  const auto near =
      std::ranges::count_if(outcomes, [&](const Outcome& o) { return o.*loss <= 0.02; });
  return static_cast<double>(near) / static_cast<double>(outcomes.size());
}

/// Over the plans that were picked, one of each workload.
nlohmann::json summary(const std::vector<Outcome>& outcomes) {
  std::vector<Compared> replayed, predicted, memory, every_plan;
  for (const Outcome& outcome : outcomes) {
    replayed.push_back(outcome.ways[outcome.picked].replay());
    predicted.push_back(outcome.ways[outcome.picked].prediction());
    memory.insert(memory.end(), outcome.memory.begin(), outcome.memory.end());
    for (const RatedWay& way : outcome.ways) every_plan.push_back(way.replay());
  }
  return {{"mean_error", errors_of(replayed).mean},
          {"worst_error", errors_of(replayed).worst},
          {"mean_error_of_every_plan", errors_of(every_plan).mean},
          {"predicted_mean_error", errors_of(predicted).mean},
          {"predicted_worst_error", errors_of(predicted).worst},
          {"memory_mean_error", errors_of(memory).mean},
          {"memory_worst_error", errors_of(memory).worst},
          {"picks_within_2_percent", near_best(outcomes, &Outcome::loss)},
          {"picks_within_2_percent_held_out", near_best(outcomes, &Outcome::held_out_loss)},
          {"measured_picks_within_2_percent", near_best(outcomes, &Outcome::measuring_loss)}};
}

void run(const Arguments& a) {
  Bench bench(a);
  std::vector<Outcome> outcomes;
  Table table(
      {{"workload", Align::kLeft}, {"step"}, {"replayed"}, {"predicted"}, {"memory"}, {"pick"}});
  const std::vector<Workload> all = workloads();
  for (std::size_t i = 0; i < std::min(all.size(), static_cast<std::size_t>(a.workloads)); ++i) {
    fmt::print(stderr, "workload {} of {}: {}\n", i + 1, a.workloads, all[i].name());
    outcomes.push_back(bench.run(all[i]));
    add_row(table, outcomes.back());
  }
  nlohmann::json figures = summary(outcomes);
  fmt::print(
      "Errors of the plan that the simulator picks of ten; memory: of its worst rank; pick: how\n"
      "much longer it takes, replayed, than the best of the ten. Held out: measured, against the\n"
      "best in the other repetitions. Measured picks: those, against the best of each\n\n{}\n",
      table.text());
  for (const auto& [name, value] : figures.items())
    fmt::print("{:31} {}\n", name, percent(value.get<double>()));
  if (a.json.empty()) return;
  for (const Outcome& outcome : outcomes) figures["workloads"].push_back(to_json(outcome));
  write_file(a.json, figures.dump(2) + "\n");
}

}  // namespace
}  // namespace slimpack::bench

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"How well the simulator predicts steps of the runtime.", "fidelity"};
  slimpack::bench::Arguments a;
  app.add_option("--workloads", a.workloads, "Only so many of the thirty")
      ->check(CLI::Range(1, 30))
      ->capture_default_str();
  app.add_option("--repetitions", a.repetitions, "Medians are taken over these")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  app.add_option("--json", a.json, "Write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::bench::run(a); });
}
