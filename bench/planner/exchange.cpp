// What context exchange is worth: the same steps of long documents with every rank's attention its
// own, and with parts of it run by other ranks of the pipeline; beside them slimpipe, which
// exchanges wherever that pays.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/planner/baseline_step.h"

namespace slimpack::bench {
namespace {

constexpr Tokens kContext{262'144};
constexpr std::int32_t kExchangeStages[] = {1, 2, 4};
constexpr std::size_t kDocuments[] = {1, 4};

/// Pipelines inside a node and across nodes.
constexpr Grid kGrids[] = {{1, 8, 1}, {2, 4, 1}, {8, 4, 1}};

class Exchange {
 public:
  Exchange(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("exchange", static_cast<std::int64_t>(std::size(kGrids) * std::size(kDocuments))),
        table_({{"documents", Align::kLeft},
                {"tp × pp"},
                {"own attention"},
                {"stages"},
                {"bubble"},
                {"exchanged"},
                {"stages"},
                {"bubble"},
                {"speedup"},
                {"slimpipe"}}) {}

  void run() {
    double least = std::numeric_limits<double>::infinity();
    double apart = 0;  // of ours and slimpipe, in slimpipe's own ground
    for (const std::size_t documents : kDocuments)
      for (const Grid& grid : kGrids) {
        const Compared compared = compare(documents, grid);
        least = std::min(least, compared.speedup);
        apart = std::max(apart, compared.ours_over_slimpipe);
        progress_.advance();
      }
    progress_.finish();
    report_.add_goal(
        {"exchange: allowed, × not allowed, least", least, Goal::Sense::kAtLeast, 1, Unit::kRatio});
    report_.add_goal(
        {"exchange: ours ÷ slimpipe, most", apart, Goal::Sense::kAtMost, 1.02, Unit::kRatio});
    fmt::print(
        "\nContext exchange: Llama-3-8B on H100, documents of {}, best of 1, 2 and 4 stages a "
        "rank\n\n{}",
        in_k(kContext), table_.text());
  }

 private:
  struct Compared {
    double speedup;
    double ours_over_slimpipe;
  };

  Compared compare(std::size_t documents, const Grid& grid) {
    const Costs cost = grid_cost("llama-3-8b", grid);
    const SequenceLengths lengths(documents, kContext);
    std::optional<RatedStep> own, exchanged;
    std::optional<Nanos> slimpipe;
    std::optional<StepJob> job = grid_job(cost, grid, lengths, kContext);
    for (const std::int32_t stages : kExchangeStages) {
      job->job.layout = balanced_layout(cost, lengths, grid.pp, stages);
      job->job.memory_cap = activation_memory(cost, job->job.layout, grid.dp);
      job->choices.effort = options_.effort;
      keep_shorter(own, rated_with(*job, documents, stages, false));
      keep_shorter(exchanged, rated_with(*job, documents, stages, true));
      const Nanos rival =
          tuned_baseline(baseline_named("slimpipe"), job->job, lengths, job->choices, cost)
              .step.prediction.makespan;
      slimpipe = slimpipe ? std::min(*slimpipe, rival) : rival;
    }
    return add_row(documents, grid, *own, *exchanged, *slimpipe);
  }

  RatedStep rated_with(StepJob& job, std::size_t documents, std::int32_t stages, bool exchange) {
    job.choices.exchange_context = exchange;
    RatedStep step = rated(job);
    report_.add(fmt::format("exchange/{}-documents", documents), step,
                {{"stages_per_rank", stages}, {"exchange_context", exchange}});
    return step;
  }

  static void keep_shorter(std::optional<RatedStep>& best, RatedStep step) {
    if (step.step && (!best || step.figures.makespan < best->figures.makespan))
      best = std::move(step);
  }

  Compared add_row(std::size_t documents, const Grid& grid, const RatedStep& own,
                   const RatedStep& exchanged, Nanos slimpipe) {
    const double seconds = to_seconds(exchanged.figures.makespan);
    const double speedup = to_seconds(own.figures.makespan) / seconds;
    std::vector<std::string> row{fmt::format("{} of {}", documents, in_k(kContext)),
                                 fmt::format("{} × {}", grid.tp, grid.pp)};
    for (const RatedStep* one : {&own, &exchanged})
      std::ranges::move(step_cells(*one), std::back_inserter(row));
    row.push_back(fmt::format("{:.3f}", speedup));
    row.push_back(human_duration(slimpipe));
    table_.add_row(std::move(row));
    return {speedup, seconds / to_seconds(slimpipe)};
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_;
  Table table_;
};

}  // namespace

void run_exchange(const BenchOptions& options, Report& report) {
  Exchange(options, report).run();
}

}  // namespace slimpack::bench
