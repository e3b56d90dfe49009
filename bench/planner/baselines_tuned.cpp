// Baselines tuned: models on 256 H100 against every baseline in its best setting. All get the same
// sequences, layers per stage, choices of recomputation and memory for activations.
#include <fmt/format.h>

#include <iterator>

#include "bench/planner/contest.h"
#include "bench/planner/parts.h"
#include "bench/planner/what_binds.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

class BaselinesTuned {
 public:
  BaselinesTuned(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("tuned baselines",
                  static_cast<std::int64_t>(options.models.size() * options.contexts.size() *
                                            options.sequences.size() * std::size(kLists))),
        table_({{"model", Align::kLeft},
                {"context"},
                {"sequences"},
                {"lengths", Align::kLeft},
                {"step"},
                {"bubble"},
                {"× best other"},
                {"best other", Align::kLeft},
                {"its tuning", Align::kLeft},
                {"what binds", Align::kLeft}}) {}

  void run() {
    for (const std::string& model : options_.models) {
      const Costs cost = grid_cost(model, {});
      for (const std::int64_t context : options_.contexts)
        for (const std::size_t sequences : options_.sequences)
          for (const std::string_view list : kLists) {
            add(model, cost, list, Tokens(1024 * context), sequences);
            progress_.advance();
          }
    }
    progress_.finish();
    fmt::print("\nTuned baselines: {} on H100\n\n{}", to_string(Grid{}), table_.text());
    report_.add_goal({"tuned: baselines that are faster than ours", behind_, Goal::Sense::kAtMost,
                      0, Unit::kCount});
  }

 private:
  void add(const std::string& model, const Costs& cost, std::string_view list, Tokens context,
           std::size_t sequences) {
    const std::optional<StepJob> job =
        grid_job(cost, {}, list_lengths(list, options_, sequences, context), context);
    if (!job) return;
    RatedStep own;
    const Contest found = contest(*job, &own);
    behind_ += found.behind();
    const Contender* other = found.best_other();
    nlohmann::json entry{{"model", model},
                         {"lengths", list},
                         {"context", context.count()},
                         {"sequences", sequences},
                         {"speedup", found.speedup()},
                         {"planners", nlohmann::json::array({to_json(found.ours)})}};
    for (const Contender& each : found.others) entry["planners"].push_back(to_json(each));
    std::string binds;
    if (other != nullptr && found.ours.fits && found.speedup() < kClearlyFaster)
      binds = what_binds(*job, own, other->makespan);
    entry["what_binds"] = binds;
    report_.add_to("baselines_tuned", std::move(entry));
    table_.add_row({model, in_k(context), fmt::format("{}", sequences), std::string(list),
                    found.ours.fits ? human_duration(found.ours.makespan) : "does not fit",
                    human_share(found.ours.bubble),
                    found.speedup() > 0 ? fmt::format("{:.2f}", found.speedup()) : "",
                    other == nullptr ? "none fits" : other->planner,
                    other == nullptr ? "" : other->tuning, binds});
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_;
  Table table_;
  double behind_ = 0;
};

}  // namespace

void run_baselines_tuned(const BenchOptions& options, Report& report) {
  BaselinesTuned(options, report).run();
}

}  // namespace slimpack::bench
