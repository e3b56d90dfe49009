// How much of the gap to the bound is the plan's, and how much the bound's: a long search for every
// other cluster case. What it finds is the plan's part; what is left is the bound's at most.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/planner/cluster_cases.h"
#include "bench/planner/parts.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

/// Every so many-th case is looked at.
constexpr std::size_t kEvery = 2;

class Split {
 public:
  Split(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        lists_(cluster_lists(options.lengths)),
        layouts_(cluster_layouts()),
        progress_("split", static_cast<std::int64_t>(kClusterModels.size() * lists_.size() *
                                                     layouts_.size() / kEvery)),
        table_({{"case", Align::kLeft},
                {"step"},
                {"long search"},
                {"bound"},
                {"gap"},
                {"the plan's"},
                {"the bound's, at most"}}) {}

  void run() {
    for (const char* model : kClusterModels) {
      gaps_.clear();
      plans_.clear();
      bounds_.clear();
      std::size_t index = 0;
      for (const LengthList& list : lists_)
        for (std::size_t l = 0; l < layouts_.size(); ++l)
          // Odd places of one list, even ones of the next, so that all layouts come up.
          if ((l + index++ / layouts_.size()) % kEvery == 0) one(model, list, layouts_[l]);
      finish(model);
    }
    progress_.finish();
    fmt::print(
        "\nGap to the bound, split by a search of effort {}: step ÷ its step − 1 is the plan's, "
        "its "
        "step ÷ bound − 1 the bound's at most\n\n{}",
        options_.long_effort, table_.text());
  }

 private:
  void one(const std::string& model, const LengthList& list, const Grid& layout) {
    progress_.advance();
    const std::string name =
        fmt::format("split/{}/{}/tp{}-pp{}", model, list.name, layout.tp, layout.pp);
    if (name.find(options_.cases) == std::string::npos) return;
    auto job = grid_job(grid_cost(model, layout), layout, list.lengths, kClusterContext);
    if (!job) return;
    const RatedStep usual = rated(*job);
    if (!usual.step) return;
    job->choices.effort = options_.long_effort;
    const RatedStep longer = rated(*job);
    const double step = to_seconds(usual.figures.makespan);
    const double best = std::min(step, to_seconds(longer.figures.makespan));
    const double bound =
        to_seconds(std::min(usual.figures.lower_bound, longer.figures.lower_bound));
    gaps_.push_back(step / bound - 1);
    plans_.push_back(step / best - 1);
    bounds_.push_back(best / bound - 1);
    add_row(name, {step, best, bound}, gaps_.back(), plans_.back(), bounds_.back());
    report_.add(name, usual,
                {{"long", to_json(longer)},
                 {"plan_part", plans_.back()},
                 {"bound_part_at_most", bounds_.back()}});
  }

  void add_row(const std::string& name, const std::vector<double>& seconds, double gap, double plan,
               double bound) {
    std::vector<std::string> row{name};
    for (const double time : seconds) row.push_back(text_of(time, Unit::kSeconds));
    for (const double share : {gap, plan, bound}) row.push_back(text_of(share, Unit::kShare));
    table_.add_row(std::move(row));
  }

  void finish(const std::string& model) {
    if (gaps_.empty()) return;
    table_.add_row({fmt::format("{}, median of {}", model, gaps_.size()), "", "", "",
                    text_of(median(gaps_), Unit::kShare), text_of(median(plans_), Unit::kShare),
                    text_of(median(bounds_), Unit::kShare)});
    const double limit = model == kClusterModels.front() ? 0.08 : 0.12;
    report_.add_goal({fmt::format("split: gap of {}, median", model), median(gaps_),
                      Goal::Sense::kAtMost, limit, Unit::kShare});
  }

  const BenchOptions& options_;
  Report& report_;
  std::vector<LengthList> lists_;
  std::vector<Grid> layouts_;
  PartProgress progress_;
  Table table_;
  std::vector<double> gaps_;    ///< of the model's cases
  std::vector<double> plans_;   ///< the plan's part of each
  std::vector<double> bounds_;  ///< the bound's, at most
};

}  // namespace

void run_split(const BenchOptions& options, Report& report) {
  Split(options, report).run();
}

}  // namespace slimpack::bench
