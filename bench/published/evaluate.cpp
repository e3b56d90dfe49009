#include "bench/published/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "bench/published/fit.h"
#include "bench/published/predict.h"

namespace slimpack::bench {
namespace {

constexpr std::size_t kSmallestGroup = 3;

std::string reported_set(const PublishedStep& step, bool fitted) {
  const char* const half = fitted ? "fitted" : "held out";
  if (step.set == kOneNode) return fmt::format("{}, {}", step.set, half);
  if (step.set == kManyNodes) return fmt::format("{}{}", step.set, step.tp > 8 ? ", tp 16" : "");
  if (step.set == kFoundry)
    return fmt::format("{}, {}, {}", step.set, step.gpu.starts_with("a100") ? "A100" : "H100",
                       half);
  return step.set;
}

/// Programs whose steps are predicted from hardware files alone, too: the error of plans without a
/// profile (docs/prediction.md).
bool predicted_twice(const PublishedStep& step) {
  return step.set == kFoundry || step.set == "torchtitan";
}

Outcome outcome_of(const PublishedStep& step, std::string set, const Machines& machines,
                   Figures figures) {
  Outcome outcome;
  outcome.step = step;
  outcome.set = std::move(set);
  const Expressed job = express(step, machines, figures);
  if (const auto* reason = std::get_if<std::string>(&job)) {
    outcome.not_because = *reason;
    return outcome;
  }
  const Prediction prediction = predict(std::get<PublishedJob>(job));
  outcome.seconds = prediction.seconds;
  outcome.memory = prediction.memory;
  return outcome;
}

/// Steps that differ in layout alone. Both halves of vTrain's one-node steps are one list.
auto group_of(const PublishedStep& step) {
  return std::tuple(step.layers, step.hidden, step.heads, step.ffn, step.vocabulary,
                    step.tokens.count(), step.gpus, step.batch, step.recompute, step.precision,
                    step.gpu);
}

}  // namespace

std::vector<Outcome> evaluate(const std::vector<PublishedStep>& steps, const Machines& machines,
                              const std::function<void()>& progress) {
  std::map<std::string_view, std::vector<bool>> halves;
  for (const FittedProgram& program : fitted_programs())
    halves[program.set] = fitted_half(
        static_cast<std::size_t>(std::ranges::count(steps, program.set, &PublishedStep::set)));
  std::map<std::string_view, std::size_t> seen;
  std::vector<Outcome> outcomes;
  for (const PublishedStep& step : steps) {
    const auto half = halves.find(step.set);
    const bool fitted = half != halves.end() && half->second[seen[half->first]++];
    outcomes.push_back(outcome_of(step, reported_set(step, fitted), machines, Figures::kOfProgram));
    if (predicted_twice(step) && outcomes.back().expressed())
      outcomes.push_back(
          outcome_of(step, "hardware files alone", machines, Figures::kOfHardwareFile));
    progress();
  }
  return outcomes;
}

std::map<std::string, SetFigures> figures_of(const std::vector<Outcome>& outcomes) {
  struct Collected {
    std::vector<Compared> times, memories;
    std::map<decltype(group_of(outcomes.front().step)), std::vector<Compared>> groups;
  };
  std::map<std::string, SetFigures> figures;
  std::map<std::string, Collected> collected;
  for (const Outcome& outcome : outcomes) {
    SetFigures& set = figures[outcome.set];
    ++(outcome.expressed() ? set.steps : set.left_out);
    Collected& all = collected[outcome.set];
    if (outcome.timed()) all.times.push_back(outcome.time());
    if (outcome.weighed()) all.memories.push_back(outcome.bytes());
    if (outcome.timed()) all.groups[group_of(outcome.step)].push_back(outcome.time());
  }
  for (auto& [name, set] : figures) {
    const Collected& all = collected[name];
    set.time = errors_of(all.times);
    set.memory = errors_of(all.memories);
    for (const auto& [group, members] : all.groups)
      if (members.size() >= kSmallestGroup) {
        set.ranking += ranked_pairs(members);
        set.choice_losses.push_back(choice_loss(members));
      }
  }
  return figures;
}

}  // namespace slimpack::bench
