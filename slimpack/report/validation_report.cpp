#include "slimpack/report/validation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {
namespace {

constexpr std::size_t kShownErrors = 10;

/// An action and the step, counted from 1, that it belongs to.
struct PlacedError {
  std::size_t step;
  const ActionError* action;
};

std::vector<PlacedError> worst_of_all(std::span<const StepErrors> steps) {
  std::vector<PlacedError> all;
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (const ActionError& action : steps[s].worst) all.push_back({s + 1, &action});
  std::ranges::stable_sort(all, {}, [](const PlacedError& e) {
    return -std::abs((e.action->predicted - e.action->measured).count());
  });
  all.resize(std::min(all.size(), kShownErrors));
  return all;
}

std::string signed_share(double share) {
  return fmt::format("{:+.1f}%", 100 * share);
}

Table step_table(std::span<const StepErrors> steps) {
  Table table({{"step"},
               {"measured"},
               {"replayed"},
               {"predicted"},
               {"error"},
               {"bubble"},
               {"predicted"},
               {"jitter", Align::kRight, 1},
               {"memory"}});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const StepErrors& e = steps[s];
    table.add_row({fmt::format("{}", s + 1), human_duration(e.measured), human_duration(e.replayed),
                   human_duration(e.predicted), signed_share(e.error()),
                   human_share(e.measured_bubble), human_share(e.predicted_bubble),
                   human_share(e.jitter), human_share(e.memory_error())});
  }
  return table;
}

std::string work_text(const Work& work) {
  const auto& [rank, kind, stage, pack] = work;
  std::string text = fmt::format("rank {} {}", rank, to_string(kind));
  if (pack.value() >= 0) text += fmt::format(" {}", pack.value());
  if (stage.value() != rank) text += fmt::format(", stage {}", stage.value());
  return text;
}

Table action_table(const std::vector<PlacedError>& worst) {
  Table table({{"step"},
               {"action", Align::kLeft},
               {"measured"},
               {"predicted"},
               {"error"},
               {"likely reason", Align::kLeft}});
  for (const auto& [step, action] : worst)
    table.add_row({fmt::format("{}", step), work_text(action->work),
                   human_duration(action->measured), human_duration(action->predicted),
                   signed_share(action->error()), action->reason});
  return table;
}

nlohmann::json counts(const std::vector<Bytes>& bytes) {
  nlohmann::json out = nlohmann::json::array();
  for (const Bytes b : bytes) out.push_back(b.count());
  return out;
}

nlohmann::json to_json(const ActionError& action) {
  const auto& [rank, kind, stage, pack] = action.work;
  return {{"rank", rank},
          {"kind", to_string(kind)},
          {"stage", stage.value()},
          {"pack", pack.value()},
          {"measured_ns", action.measured.count()},
          {"predicted_ns", action.predicted.count()},
          {"error", action.error()},
          {"spread", action.spread},
          {"reason", action.reason}};
}

nlohmann::json to_json(const StepErrors& e) {
  nlohmann::json worst = nlohmann::json::array();
  for (const ActionError& action : e.worst) worst.push_back(to_json(action));
  return {{"measured_ns", e.measured.count()},
          {"replayed_ns", e.replayed.count()},
          {"predicted_ns", e.predicted.count()},
          {"error", e.error()},
          {"replayed_error", e.replayed_error()},
          {"measured_bubble", e.measured_bubble},
          {"predicted_bubble", e.predicted_bubble},
          {"jitter", e.jitter},
          {"measured_peak_bytes", counts(e.measured_peak)},
          {"predicted_peak_bytes", counts(e.predicted_peak)},
          {"memory_error", e.memory_error()},
          {"same_order", e.same_order},
          {"worst", worst}};
}

}  // namespace

ValidationSummary summary_of(std::span<const StepErrors> steps) {
  ValidationSummary summary;
  for (const StepErrors& e : steps) {
    summary.mean_error += std::abs(e.error()) / static_cast<double>(steps.size());
    summary.mean_replayed_error += std::abs(e.replayed_error()) / static_cast<double>(steps.size());
    summary.memory_error = std::max(summary.memory_error, e.memory_error());
    summary.same_order = summary.same_order && e.same_order;
  }
  return summary;
}

std::string validation_text(std::span<const StepErrors> steps, int columns) {
  const ValidationSummary summary = summary_of(steps);
  const std::string words = fmt::format(
      "Predictions are {} off on average. With measured durations in place of costs the simulator "
      "is {} off: that is what changing durations and the simulator itself add. Peaks of memory "
      "are "
      "at most {} off. Actions ran in the {} order.",
      human_share(summary.mean_error), human_share(summary.mean_replayed_error),
      human_share(summary.memory_error), summary.same_order ? "predicted" : "WRONG");
  return fmt::format("{}\nThe actions that are furthest off:\n\n{}\n{}\n",
                     step_table(steps).text(columns),
                     action_table(worst_of_all(steps)).text(columns), folded(words, columns));
}

nlohmann::json validation_json(std::span<const StepErrors> steps) {
  const ValidationSummary summary = summary_of(steps);
  nlohmann::json all = nlohmann::json::array();
  for (const StepErrors& e : steps) all.push_back(to_json(e));
  return {{"format", "slimpack-validation"},
          {"version", 1},
          {"mean_error", summary.mean_error},
          {"mean_replayed_error", summary.mean_replayed_error},
          {"memory_error", summary.memory_error},
          {"same_order", summary.same_order},
          {"steps", all}};
}

}  // namespace slimpack
