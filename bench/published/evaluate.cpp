#include "bench/published/evaluate.h"

#include <fmt/format.h>

#include <tuple>

#include "bench/published/fit.h"
#include "bench/published/predict.h"

namespace slimpack::bench {
namespace {

constexpr std::size_t kSmallestGroup = 3;

std::string reported_set(const PublishedStep& step, bool fitted) {
  if (step.set == kOneNode) return fmt::format("{}, {}", step.set, fitted ? "fitted" : "held out");
  if (step.set == kManyNodes) return fmt::format("{}{}", step.set, step.tp > 8 ? ", tp 16" : "");
  if (step.set == "llm-foundry")
    return fmt::format("{}, {}", step.set, step.gpu.starts_with("a100") ? "A100" : "H100");
  return step.set;
}

Outcome outcome_of(const PublishedStep& step, bool fitted, const Machines& machines) {
  Outcome outcome;
  outcome.step = step;
  outcome.set = reported_set(step, fitted);
  const Expressed job = express(step, machines);
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
  std::size_t one_node = 0;
  for (const PublishedStep& step : steps) one_node += step.set == kOneNode ? 1 : 0;
  const std::vector<bool> fitted = fitted_half(one_node);
  std::vector<Outcome> outcomes;
  std::size_t seen = 0;
  for (const PublishedStep& step : steps) {
    const bool of_half = step.set == kOneNode && fitted[seen++];
    outcomes.push_back(outcome_of(step, of_half, machines));
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
