// Steps of real documents in virtual time: as if every rank had a core of its own.
//  clocks: as many ranks as there are cores, by both clocks in turn: how far they agree.
//  slices: how long two ranks with slices are busy beside one with whole documents.
//  eight_ranks: a model of 8 layers on 8 ranks, pp 8 and pp 4 × dp 2: bubble of our plan and of
//  fixed packing.
//  vocabulary: 128K words on four ranks, the head on the last one or spread over all.
//  heavy_document: one that outweighs a replica's share, on four replicas, merged and not.
// Steps are also replayed with every action at its median over the repetitions, which leaves out
// most of what others do to the machine's speed meanwhile. Ratios are given turn by turn, too.
// Under `taskset -c 0` ranks compute one at a time, so that none takes memory bandwidth and cache
// from another: twice as long to run, for steadier actions. "stolen" is processor time that a
// hypervisor gave to others, which the wall clock counts and virtual time does not.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/real_steps.h"
#include "bench/turns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/replay.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

struct Layout {
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t stages_per_rank = 1;
  bool spread_vocabulary = false;
};

/// One way to run the documents.
struct Case {
  std::string name;
  Layout layout;
  std::optional<PlannerKind> planner = PlannerKind::kSlimpack;  ///< none: whole documents, one rank
  ClockKind clock = ClockKind::kVirtual;
  std::int32_t most_merged = 1;
};

using Documents = std::vector<std::vector<std::int64_t>>;

Documents equal_steps(const StepOptions& a) {
  return standard_library_documents(a.context, a.step_tokens, 0);
}

/// One document as long as the context and shorter ones of an eighth of it at most: of the work,
/// which is mostly attention, it has about half.
Documents one_heavy_document(const StepOptions& a) {
  Documents documents = standard_library_documents(a.context / 8, a.step_tokens / 2, 0);
  std::vector<std::int64_t> heavy;
  for (std::size_t d = 0; std::ssize(heavy) < a.context.count(); ++d)
    heavy.insert(heavy.end(), documents[d].begin(), documents[d].end());
  heavy.resize(static_cast<std::size_t>(a.context.count()));
  documents.push_back(std::move(heavy));
  return documents;
}

class Bench {
 public:
  Bench(const StepOptions& a, Documents documents, std::int64_t layers,
        std::int32_t most_merged = 1)
      : Bench(a, std::move(documents), step_model(a.context, layers), most_merged) {}
  Bench(const StepOptions& a, Documents documents, const Decoder& shape,
        std::int32_t most_merged = 1)
      : a_(a),
        documents_(std::move(documents)),
        shape_(shape),
        tokens_(make_step_tokens(documents_, shape_.vocab_size)) {
    for (const auto& d : documents_) lengths_.emplace_back(static_cast<std::int64_t>(d.size()));
    cost_ = profile_costs({.shape = shape_,
                           .context = a.context,
                           .ranks = processors(),
                           .most_merged = most_merged,
                           .clock = ClockKind::kVirtual});
  }

  /// Runs the cases in turn and adds a row for each.
  nlohmann::json run(const std::vector<Case>& cases, Table& table) const {
    std::vector<std::unique_ptr<Engine>> engines;
    std::vector<Way> ways;
    for (const Case& c : cases) {
      engines.push_back(engine(c));
      ways.push_back({fmt::format("{}, {}", c.name, to_string(c.clock)), engines.back().get(),
                      planned(c, engines.back()->options().layout)});
    }
    run_in_turn(ways, tokens_, TrainConfig(), a_.repetitions);
    nlohmann::json out = nlohmann::json::array();
    for (std::size_t i = 0; i < cases.size(); ++i) out.push_back(row(cases[i], ways[i], table));
    return out;
  }

 private:
  [[nodiscard]] std::unique_ptr<Engine> engine(const Case& c) const {
    return std::make_unique<Engine>(EngineOptions{
        .shape = shape_,
        .layout = balanced_layout(cost_, lengths_, c.layout.pp, c.layout.stages_per_rank,
                                  c.layout.spread_vocabulary),
        .replicas = c.layout.dp,
        .context = a_.context,
        .pin_threads = c.clock == ClockKind::kWall,
        .clock = c.clock});
  }

  [[nodiscard]] RunnablePlan planned(const Case& c, const StageLayout& layout) const {
    if (!c.planner) return whole_documents(lengths_, cost_);
    return *plan_step({{.layout = layout, .replicas = c.layout.dp, .context = a_.context},
                       lengths_,
                       {.planner = *c.planner,
                        .most_merged = c.most_merged,
                        .effort = kStepEffort,
                        .backward = BackwardKind::kSplit},
                       cost_})
                .step;
  }

  [[nodiscard]] nlohmann::json row(const Case& c, const Way& way, Table& table) const {
    const SimulationResult& predicted = way.planned.prediction;
    const SimulationResult replayed = replay(way.planned, cost_, way.timelines());
    const std::vector<double> all_seconds = way.all_seconds(), all_busy = way.all_busy_seconds();
    std::vector<double> bubbles, last_over_mean;
    for (const StepResult& r : way.results) {
      const TimelineMetrics metrics = metrics_of(r.timeline);
      bubbles.push_back(metrics.bubble_ratio);
      last_over_mean.push_back(last_busy_over_mean(metrics));
    }
    const double seconds = median(all_seconds), bubble = median(bubbles),
                 stolen = median(way.stolen);
    table.add_row({c.name, fmt::format("{} × {}", c.layout.pp, c.layout.dp),
                   std::string(to_string(c.clock)), fmt::format("{:.2f} s", seconds),
                   fmt::format("{:.2f} s", to_seconds(replayed.makespan)),
                   fmt::format("{:.2f} s", to_seconds(predicted.makespan)), human_share(bubble),
                   human_share(replayed.bubble_ratio), human_share(predicted.bubble_ratio),
                   fmt::format("{:.1f} s", stolen)});
    return {{"name", c.name},
            {"pp", c.layout.pp},
            {"dp", c.layout.dp},
            {"stages_per_rank", c.layout.stages_per_rank},
            {"clock", to_string(c.clock)},
            {"seconds", seconds},
            {"all_seconds", all_seconds},
            {"predicted_seconds", to_seconds(predicted.makespan)},
            {"busy_seconds", median(all_busy)},
            {"all_busy_seconds", all_busy},
            {"bubble", bubble},
            {"all_bubbles", bubbles},
            {"last_over_mean", median(last_over_mean)},
            {"predicted_bubble", predicted.bubble_ratio},
            {"replayed_seconds", to_seconds(replayed.makespan)},
            {"replayed_bubble", replayed.bubble_ratio},
            {"stolen_seconds", stolen}};
  }

  /// The last rank's busy time ÷ the mean over ranks.
  static double last_busy_over_mean(const TimelineMetrics& metrics) {
    double sum = 0;
    for (const RankMetrics& rank : metrics.ranks) sum += to_seconds(rank.busy);
    return to_seconds(metrics.ranks.back().busy) / sum * static_cast<double>(metrics.ranks.size());
  }

  StepOptions a_;
  Documents documents_;
  SequenceLengths lengths_;
  Decoder shape_;
  StepTokens tokens_;
  Costs cost_;
};

Table result_table() {
  return Table({{"plan", Align::kLeft},
                {"pp × dp"},
                {"clock"},
                {"step"},
                {"replayed"},
                {"predicted"},
                {"bubble"},
                {"replayed"},
                {"predicted"},
                {"stolen"}});
}

double quotient(const nlohmann::json& a, const nlohmann::json& b, const char* figure,
                const char* other) {
  return a[figure].get<double>() / b[other].get<double>();
}

double quotient(const nlohmann::json& a, const nlohmann::json& b, const char* figure) {
  return quotient(a, b, figure, figure);
}

/// `figure` is one by repetition.
std::vector<double> turns_of(const nlohmann::json& a, const nlohmann::json& b, const char* figure,
                             double factor = 1) {
  return by_turn(a[figure].get<std::vector<double>>(), b[figure].get<std::vector<double>>(),
                 factor);
}

/// Runs as many ranks as there are cores, by both clocks.
nlohmann::json compare_clocks(const StepOptions& a) {
  Table table = result_table();
  const Layout two{.pp = 2};
  const nlohmann::json both =
      Bench(a, equal_steps(a), 4)
          .run({{"slimpack", two, PlannerKind::kSlimpack, ClockKind::kWall},
                {"slimpack", two, PlannerKind::kSlimpack, ClockKind::kVirtual}},
               table);
  const double ratio = quotient(both[1], both[0], "seconds");
  const double replayed = quotient(both[1], both[0], "replayed_seconds");
  const double given =
      both[0]["seconds"].get<double>() - both[0]["stolen_seconds"].get<double>() / two.pp;
  const double of_given = both[1]["seconds"].get<double>() / given;
  const std::vector<double> turns = turns_of(both[1], both[0], "all_seconds");
  fmt::print(
      "4 layers, 2 ranks: virtual ÷ wall {:.3f}, turn by turn {}; {:.3f} of what was not stolen; "
      "replayed {:.3f}\n\n{}\n",
      ratio, turns_text(turns), of_given, replayed, table.text());
  return {{"virtual_over_wall", ratio},
          {"virtual_over_wall_by_turn", turns},
          {"virtual_over_given", of_given},
          {"replayed_virtual_over_wall", replayed},
          {"cases", both}};
}

/// Measures the cost of slices: two ranks in virtual time beside one that runs the documents whole.
nlohmann::json compare_slices(const StepOptions& a) {
  Table table = result_table();
  const nlohmann::json cases =
      Bench(a, equal_steps(a), 4)
          .run({{"whole documents", {}, std::nullopt}, {"slimpack", {.pp = 2}}}, table);
  const double ratio = quotient(cases[1], cases[0], "busy_seconds");
  const std::vector<double> turns = turns_of(cases[1], cases[0], "all_busy_seconds");
  fmt::print("4 layers: busy, sliced ÷ whole {:.3f}, turn by turn {}\n\n{}\n", ratio,
             turns_text(turns), table.text());
  return {{"busy_sliced_over_whole", ratio},
          {"busy_sliced_over_whole_by_turn", turns},
          {"cases", cases}};
}

/// Four ranks of a small model with many words.
nlohmann::json spread_vocabulary(const StepOptions& a) {
  Decoder shape = step_model(a.context, 8);
  shape.kinds[0].hidden_size = 128;
  shape.kinds[0].dense_width = 352;
  shape.kinds[0].num_heads = shape.kinds[0].num_kv_heads = 4;
  shape.vocab_size = 131'072;
  Table table = result_table();
  nlohmann::json cases =
      Bench(a, equal_steps(a), shape)
          .run({{"head on the last", {.pp = 4}},
                {"spread", {.pp = 4, .spread_vocabulary = true}},
                {"spread, two stages", {.pp = 4, .stages_per_rank = 2, .spread_vocabulary = true}}},
               table);
  fmt::print("8 layers, 131072 words, 4 ranks\n\n{}\n", table.text());
  for (nlohmann::json& c : cases) {
    c["speedup"] = quotient(cases[0], c, "seconds");
    c["replayed_over_measured"] = quotient(c, c, "replayed_seconds", "seconds");
    fmt::print("{}: {:.2f} × as fast; last rank busy ÷ mean {:.3f}; replayed ÷ measured {:.3f}\n",
               c["name"].get<std::string>(), c["speedup"].get<double>(),
               c["last_over_mean"].get<double>(), c["replayed_over_measured"].get<double>());
  }
  return cases;
}

nlohmann::json run_eight_ranks(const StepOptions& a) {
  Table table = result_table();
  nlohmann::json cases =
      Bench(a, equal_steps(a), 8, 2)
          .run({{"slimpack", {.pp = 8}},
                {"packed", {.pp = 8}, PlannerKind::kPacked},
                {"slimpack", {.pp = 4, .dp = 2}, PlannerKind::kSlimpack, ClockKind::kVirtual, 2},
                {"packed", {.pp = 4, .dp = 2}, PlannerKind::kPacked}},
               table);
  fmt::print("8 layers, 8 ranks\n\n{}\n", table.text());
  return cases;
}

/// Work is what one rank takes.
nlohmann::json merge_heavy_document(const StepOptions& a) {
  constexpr std::int32_t kReplicas = 4;
  Table table = result_table();
  const Layout four{.dp = kReplicas};
  nlohmann::json cases =
      Bench(a, one_heavy_document(a), 4, kReplicas)
          .run({{"one rank", {}},
                {"not merged", four},
                {"merged", four, PlannerKind::kSlimpack, ClockKind::kVirtual, kReplicas}},
               table);
  fmt::print("4 layers, one document that outweighs a replica's share\n\n{}\n", table.text());
  for (nlohmann::json& c : cases) {
    const int ranks = c["dp"];
    c["over_ideal"] = ranks * quotient(c, cases[0], "seconds");
    c["replayed_over_ideal"] = ranks * quotient(c, cases[0], "replayed_seconds");
    const std::vector<double> turns = turns_of(c, cases[0], "all_seconds", ranks);
    c["over_ideal_by_turn"] = turns;
    fmt::print("{}: {:.3f} × work ÷ ranks, turn by turn {}; replayed {:.3f}\n",
               c["name"].get<std::string>(), c["over_ideal"].get<double>(), turns_text(turns),
               c["replayed_over_ideal"].get<double>());
  }
  return cases;
}

struct Part {
  const char* name;
  nlohmann::json (*run)(const StepOptions&);
};
constexpr std::array kParts{Part{"clocks", compare_clocks}, Part{"slices", compare_slices},
                            Part{"vocabulary", spread_vocabulary},
                            Part{"eight_ranks", run_eight_ranks},
                            Part{"heavy_document", merge_heavy_document}};

struct Arguments : StepOptions {
  std::vector<std::string> parts;
};

void run(const Arguments& a) {
  nlohmann::json json;
  for (const Part& part : kParts)
    if (std::ranges::find(a.parts, part.name) != a.parts.end()) json[part.name] = part.run(a);
  if (!a.json.empty()) write_file(a.json, json.dump(2) + "\n");
}

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"Steps of real documents in virtual time, as if every rank had a core of its own.",
               "virtual_clock"};
  slimpack::Arguments arguments;
  for (const slimpack::Part& part : slimpack::kParts) arguments.parts.emplace_back(part.name);
  slimpack::add_step_options(app, arguments);
  app.add_option("--part", arguments.parts, "Which parts, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(arguments.parts))
      ->capture_default_str();
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::run(arguments); });
}
