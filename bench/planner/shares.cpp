// Phase 1 alone: how far the lightest way to share a step out is from the share bound, without and
// with the fitted assignment, on clusters and for lists of all kinds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bench/planner/jobs.h"
#include "bench/planner/lengths.h"
#include "bench/planner/parts.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/planner/step_shares.h"
#include "slimpack/solver/share_bound.h"

namespace slimpack::bench {
namespace {

constexpr const char* kShareModel = "llama-3-8b";
constexpr std::size_t kShareSequences = 512;
constexpr std::int64_t kShareContext = 262'144;
constexpr std::int64_t kBimodalContext = 65'536;
constexpr std::array kShareGrids = {Grid{8, 4, 8},  Grid{8, 1, 32},  Grid{4, 1, 64},
                                    Grid{1, 4, 64}, Grid{2, 1, 128}, Grid{1, 1, 256}};
/// A case within one of these shares of the bound is certified to it.
constexpr std::array kCertified = {0.001, 0.005, 0.01};

struct ShareList {
  std::string kind;
  SequenceLengths lengths;
};

/// Steps of 512: the four of the real list, and ten draws of each of four kinds.
std::vector<ShareList> share_lists(const std::filesystem::path& file) {
  std::vector<ShareList> lists;
  const SequenceLengths real = real_lengths(file, 4 * kShareSequences, Tokens(kShareContext));
  for (auto begin = real.begin(); begin != real.end(); begin += kShareSequences)
    lists.push_back({"real", SequenceLengths(begin, begin + kShareSequences)});
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    lists.push_back({"log-normal, mild",
                     log_normal_lengths(seed, kShareSequences, Tokens(65'536), {8.0, 0.8})});
    lists.push_back(
        {"log-normal", log_normal_lengths(seed, kShareSequences, Tokens(kShareContext))});
    lists.push_back({"Pareto", pareto_lengths(seed, kShareSequences, Tokens(kShareContext))});
    Rng rng(seed);
    SequenceLengths bimodal = drawn_lengths(
        Family::kBimodal, rng, Tokens(static_cast<std::int64_t>(kShareSequences) * kBimodalContext),
        Tokens(kBimodalContext));
    bimodal.resize(kShareSequences);
    lists.push_back({"bimodal", std::move(bimodal)});
  }
  return lists;
}

/// The load of every sequence on every group. No group spends less than a smaller one.
ShareProblem share_problem(const StepProblem& step) {
  ShareProblem problem{{}, {}, replica_speeds(step)};
  for (const PackCost& group : group_costs(step)) {
    std::vector<double> loads;
    for (std::size_t i = 0; i < step.lengths.size(); ++i) {
      loads.push_back(group(Slice{SequenceId(i), Tokens(0), step.lengths[i]}));
      if (!problem.load.empty()) loads.back() = std::max(loads.back(), problem.load.back()[i] / 2);
    }
    problem.load.push_back(std::move(loads));
  }
  problem.step = problem.load;
  return problem;
}

/// The gaps of the cases of a row.
struct ShareGaps {
  std::string name;
  std::vector<double> before;  ///< without the fitted assignment
  std::vector<double> now;

  [[nodiscard]] static std::string certified(const std::vector<double>& gaps) {
    std::string out;
    for (const double share : kCertified)
      out += fmt::format("{}{}", out.empty() ? "" : ", ",
                         std::ranges::count_if(gaps, [&](double gap) { return gap <= share; }));
    return out;
  }
};

class ShareCases {
 public:
  ShareCases(const BenchOptions& options, Report& report) : options_(options), report_(report) {}

  void run() {
    const std::vector<ShareList> lists = share_lists(options_.lengths);
    PartProgress progress("shares", static_cast<std::int64_t>(kShareGrids.size() * lists.size()));
    for (const Grid& grid : kShareGrids) {
      const Costs cost = grid_cost(kShareModel, grid);
      for (const ShareList& list : lists) {
        measure(grid, cost, list);
        progress.advance();
      }
    }
    progress.finish();
    print();
    report_.add_goal({"shares: seconds of a case with its bound, worst", seconds_,
                      Goal::Sense::kAtMost, 10, Unit::kSeconds});
    report_.add_goal({"shares: gap of the real steps, worst", worst_real_, Goal::Sense::kAtMost,
                      0.01, Unit::kShare});
  }

 private:
  void measure(const Grid& grid, const Costs& cost, const ShareList& list) {
    const auto job = grid_job(cost, grid, list.lengths, Tokens(kShareContext));
    if (!job) return;
    const StageTable table = stage_table(cost, job->job.layout, {}, {grid.dp, {}});
    const StepProblem step = step_problem(table, job->lengths, job->choices);
    const Nanos start = monotonic_now();
    const double bound = share_bound(share_problem(step), 0);
    const StepShares shares = step_shares(step);
    const double seconds = to_seconds(monotonic_now() - start);
    const double before = lightest_load(shares) / bound - 1;
    const double now =
        shares.fitted ? std::min(before, highest_load(*shares.fitted) / bound - 1) : before;
    for (const std::string& name : {list.kind, fmt::format("dp {}", grid.dp), std::string("all")}) {
      row(name).before.push_back(before);
      row(name).now.push_back(now);
    }
    seconds_ = std::max(seconds_, seconds);
    if (list.kind == "real") worst_real_ = std::max(worst_real_, now);
    report_.add(fmt::format("shares/{}/{}", to_string(grid), list.kind), "slimpack",
                {{"bound_ns", bound}, {"gap_before", before}, {"gap", now}, {"seconds", seconds}});
  }

  ShareGaps& row(const std::string& name) {
    const auto found = std::ranges::find(rows_, name, &ShareGaps::name);
    return found != rows_.end() ? *found : rows_.emplace_back(ShareGaps{name, {}, {}});
  }

  void print() const {
    Table table({{"steps", Align::kLeft},
                 {"cases"},
                 {"before: 0.1, 0.5, 1%"},
                 {"worst"},
                 {"now: 0.1, 0.5, 1%"},
                 {"worst"}});
    for (const ShareGaps& gaps : rows_)
      table.add_row({gaps.name, fmt::to_string(gaps.now.size()), ShareGaps::certified(gaps.before),
                     text_of(std::ranges::max(gaps.before), Unit::kShare),
                     ShareGaps::certified(gaps.now),
                     text_of(std::ranges::max(gaps.now), Unit::kShare)});
    fmt::print(
        "\nPhase 1: cases of {} documents whose highest load is certified to so much; worst case "
        "in {}\n\n{}",
        kShareSequences, text_of(seconds_, Unit::kSeconds), table.text());
  }

  const BenchOptions& options_;
  Report& report_;
  std::vector<ShareGaps> rows_;
  double worst_real_ = 0;
  double seconds_ = 0;
};

}  // namespace

void run_shares(const BenchOptions& options, Report& report) {
  ShareCases(options, report).run();
}

}  // namespace slimpack::bench
