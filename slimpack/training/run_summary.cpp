#include "slimpack/training/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {
namespace {

/// The step of median speed: a slow step on a shared machine does not count.
const StepFigures& median_step(std::vector<StepFigures>& steps) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle, {}, &StepFigures::tokens_per_second);
  return *middle;
}

void add_comparison(Table& table, const char* name, const StepFigures& f) {
  table.add_row(
      {name, human_duration(f.step_time), human_duration(f.predicted_time), human_share(f.bubble),
       human_share(f.predicted_bubble), human_bytes(largest(f.peak_activation)),
       human_bytes(largest(f.predicted_peak_activation)), human_count(f.tokens_per_second())});
}

std::string planning_text(const std::vector<StepFigures>& steps) {
  Nanos planning;
  Nanos waiting;
  for (const StepFigures& f : steps) {
    planning += f.planning_time;
    waiting += f.planning_wait;
  }
  return fmt::format("planning took {}, of which training waited {} ({} of it for the first step)",
                     human_duration(planning), human_duration(waiting),
                     human_duration(steps.front().planning_wait));
}

Table comparison_table() {
  return Table({{"", Align::kLeft},
                {"step"},
                {"predicted"},
                {"bubble"},
                {"predicted", Align::kRight, 1},
                {"peak activations"},
                {"predicted", Align::kRight, 2},
                {"tokens/s"}});
}

}  // namespace

std::string summary_text(const RunSummary& summary, int columns) {
  const StepFigures& first = summary.steps.front();
  const StepFigures& last = summary.steps.back();
  std::vector<StepFigures> steps = summary.steps;
  Table table = comparison_table();
  add_comparison(table, "median step", median_step(steps));
  if (summary.sliced) add_comparison(table, "last step again, sliced", *summary.sliced);
  if (summary.packed) add_comparison(table, "last step again, packed", *summary.packed);
  std::string text = fmt::format("\nloss {:.4f} → {:.4f} in {} steps\n", first.loss, last.loss,
                                 summary.steps.size());
  if (!summary.evaluations.empty())
    text +=
        fmt::format("evaluation loss {:.4f} → {:.4f}\n", summary.evaluations.front().result.loss,
                    summary.evaluations.back().result.loss);
  text += "\n" + table.text(columns);
  if (summary.sliced && summary.packed)
    text += fmt::format("\nsliced is {:.2f} × as fast as fixed packing + 1F1B on these documents\n",
                        static_cast<double>(summary.packed->step_time.count()) /
                            static_cast<double>(summary.sliced->step_time.count()));
  text += fmt::format("\n{}\n\nwritten:\n", folded(planning_text(summary.steps), columns));
  for (const auto& path : summary.written) text += "  " + path.string() + "\n";
  return text;
}

}  // namespace slimpack
