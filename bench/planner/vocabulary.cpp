// What a spread vocabulary is worth: the same steps with embedding and head on the first and the
// last rank, and with a part of both on every rank of the pipeline.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/workloads.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr Tokens kVocabularyContext{65'536};
constexpr std::size_t kSequences = 512;
constexpr std::int32_t kVocabularyStages[] = {1, 2, 4};
constexpr std::int32_t kPipelines[] = {4, 8, 16};

/// Models of many words, with the tensor-parallel ranks that their states need.
struct Model {
  const char* name;
  std::int32_t tp;
};
constexpr Model kVocabularyModels[] = {{"llama-3-8b", 1}, {"qwen3-32b", 8}};

class Vocabulary {
 public:
  Vocabulary(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        lengths_(real_lengths(options.lengths, kSequences, kVocabularyContext)),
        progress_("vocabulary",
                  static_cast<std::int64_t>(std::size(kVocabularyModels) * std::size(kPipelines))),
        table_({{"model", Align::kLeft},
                {"tp × pp"},
                {"on the ends"},
                {"stages"},
                {"bubble"},
                {"peak"},
                {"spread"},
                {"stages"},
                {"bubble"},
                {"peak"},
                {"speedup"}}) {}

  void run() {
    double least = std::numeric_limits<double>::infinity();
    for (const Model& model : kVocabularyModels)
      for (const std::int32_t pp : kPipelines) {
        const double speedup = compare(model, pp);
        if (pp >= 8 && speedup > 0) least = std::min(least, speedup);
        progress_.advance();
      }
    progress_.finish();
    report_.add_goal({"vocabulary: spread, × on the ends, least of pp 8 and 16", least,
                      Goal::Sense::kAtLeast, 1, Unit::kRatio});
    fmt::print(
        "\nThe vocabulary on the ends or spread: {} real documents up to {}, best of 1, 2 "
        "and 4 stages a rank\n\n{}",
        kSequences, in_k(kVocabularyContext), table_.text());
  }

 private:
  double compare(const Model& model, std::int32_t pp) {
    const Grid grid{model.tp, pp, 1};
    const Costs cost = grid_cost(model.name, grid);
    const std::optional<RatedStep> ends = best(model, grid, cost, false);
    const std::optional<RatedStep> spread = best(model, grid, cost, true);
    std::vector<std::string> row{model.name, fmt::format("{} × {}", model.tp, pp)};
    for (const std::optional<RatedStep>* one : {&ends, &spread}) {
      if (!*one) {
        row.insert(row.end(), {"does not fit", "", "", ""});
        continue;
      }
      std::ranges::move(step_cells(**one), std::back_inserter(row));
      row.push_back(human_bytes((*one)->figures.peak));
    }
    // 0 where one of them does not fit.
    const double speedup =
        ends && spread ? to_seconds(ends->figures.makespan) / to_seconds(spread->figures.makespan)
                       : 0;
    row.push_back(speedup > 0 ? fmt::format("{:.3f}", speedup) : "");
    table_.add_row(std::move(row));
    return speedup;
  }

  /// With the number of stages that suits it.
  std::optional<RatedStep> best(const Model& model, const Grid& grid, const Costs& cost,
                                bool spread) {
    std::optional<RatedStep> best;
    std::optional<StepJob> job = grid_job(cost, grid, lengths_, kVocabularyContext);
    for (const std::int32_t stages : kVocabularyStages) {
      if (!job || std::int64_t{grid.pp} * stages > cost.shape.num_layers()) break;
      job->job.layout = balanced_layout(cost, lengths_, grid.pp, stages, spread);
      job->job.memory_cap = activation_memory(cost, job->job.layout, grid.dp);
      job->choices.effort = options_.effort;
      RatedStep step = rated(*job);
      report_.add(fmt::format("vocabulary/{}/pp-{}", model.name, grid.pp), step,
                  {{"stages_per_rank", stages}, {"spread_vocabulary", spread}});
      if (!step.step) continue;
      if (!best || step.figures.makespan < best->figures.makespan) best = std::move(step);
    }
    return best;
  }

  const BenchOptions& options_;
  Report& report_;
  SequenceLengths lengths_;
  PartProgress progress_;
  Table table_;
};

}  // namespace

void run_vocabulary(const BenchOptions& options, Report& report) {
  Vocabulary(options, report).run();
}

}  // namespace slimpack::bench
