// Where one document outweighs a replica by far, so that many replicas have to share it: our search
// by itself, our plan, and the baselines that share MicroPacks. All replicas may run one together.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "bench/planner/contest.h"
#include "bench/planner/lengths.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr const char* kModel = "llama-3-8b";
constexpr std::int64_t kContext = 262'144;
constexpr std::size_t kSequences = 512;
constexpr std::array kGrids = {Grid{1, 1, 256}, Grid{1, 2, 128}, Grid{2, 1, 128}, Grid{2, 2, 64}};

struct GroupList {
  const char* name;
  SequenceLengths lengths;
};

/// Pareto as in lengths.h, two draws; short log-normal documents beside one, and beside three, of
/// the context or nearly so.
std::array<GroupList, 4> group_lists() {
  const auto beside = [](std::initializer_list<std::int64_t> giants) {
    SequenceLengths lengths = log_normal_lengths(1, kSequences - giants.size(), Tokens(16'384),
                                                 {.mean_of_log = 6.5, .deviation_of_log = 1.0});
    for (const std::int64_t giant : giants) lengths.emplace_back(giant);
    return lengths;
  };
  return {GroupList{"pareto-1", pareto_lengths(1, kSequences, Tokens(kContext))},
          GroupList{"pareto-2", pareto_lengths(2, kSequences, Tokens(kContext))},
          GroupList{"one-giant", beside({kContext})},
          GroupList{"three-giants", beside({kContext, 200'000, 150'000})}};
}

class Groups {
 public:
  Groups(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("groups", static_cast<std::int64_t>(group_lists().size() * kGrids.size())),
        table_({{"case", Align::kLeft},
                {"searched"},
                {"gap"},
                {"cp"},
                {"step"},
                {"gap"},
                {"cp"},
                {"of", Align::kLeft},
                {"× best other"},
                {"best other", Align::kLeft},
                {"planned in"}}) {}

  void run() {
    for (const auto& [list, lengths] : group_lists())
      for (const Grid& grid : kGrids) {
        progress_.advance();
        const std::string name = fmt::format("groups/{}/tp{}-pp{}", list, grid.tp, grid.pp);
        if (name.find(options_.cases) == std::string::npos) continue;
        if (const auto job = grid_job(grid_cost(kModel, grid), grid, lengths, Tokens(kContext)))
          add(name, *job);
      }
    progress_.finish();
    fmt::print("\nGroups of up to all replicas: {} on 256 H100, {} documents\n\n{}", kModel,
               kSequences, table_.text());
    report_.add_goal({"groups: gap of the search alone, worst", worst_gap_, Goal::Sense::kAtMost,
                      0.1, Unit::kShare});
    report_.add_goal({"groups: baselines that are faster than ours", behind_, Goal::Sense::kAtMost,
                      0, Unit::kCount});
  }

 private:
  void add(const std::string& name, const StepJob& job) {
    StepJob alone = job;
    alone.choices.search.baselines = false;
    const RatedStep searched = rated(alone);
    RatedStep ours;
    const Contest found = contest(job, &ours);
    behind_ += found.behind();
    const Contender* other = found.best_other();
    std::vector<std::string> row{name};
    for (const RatedStep* step : {&searched, &std::as_const(ours)}) {
      if (!step->step) {
        row.insert(row.end(), {"!", "", ""});
        continue;
      }
      row.push_back(human_duration(step->figures.makespan));
      row.push_back(human_share(step->figures.gap));
      row.push_back(fmt::to_string(most_merged(step->step->plan)));
    }
    if (searched.step) worst_gap_ = std::max(worst_gap_, searched.figures.gap);
    row.push_back(found.ours.adopted);
    row.push_back(fmt::format("{:.2f}", found.speedup()));
    row.push_back(other == nullptr ? "" : other->planner);
    row.push_back(text_of(ours.planning_seconds, Unit::kSeconds));
    table_.add_row(std::move(row));
    report_.add(name, ours, {{"searched", to_json(searched)}, {"speedup", found.speedup()}});
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_;
  Table table_;
  double worst_gap_ = 0;
  double behind_ = 0;
};

}  // namespace

void run_groups(const BenchOptions& options, Report& report) {
  Groups(options, report).run();
}

}  // namespace slimpack::bench
