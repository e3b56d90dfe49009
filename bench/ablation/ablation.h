// Ablation: what steps and planning take with one thing switched off, against everything on.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/ablation/steps.h"
#include "bench/ablation/switches.h"

namespace slimpack::bench {

/// A step as planned.
struct PlannedJob {
  std::optional<Nanos> makespan;  ///< absent: nothing fits
  double seconds = 0;             ///< of processor time to plan it
  std::int64_t candidates = 0;    ///< that the search has looked at
};
[[nodiscard]] PlannedJob planned(const StepJob& step);

/// How many times as long the steps of a setting are with the switch. A step that fits one way only
/// is counted, and left out of the others.
struct Worth {
  int steps = 0;
  int lost = 0;  ///< steps that no longer fit
  double mean = 1;
  double most = 1;
  double least = 1;
};
[[nodiscard]] nlohmann::json to_json(const Worth& worth);
[[nodiscard]] Worth worth_of(const std::vector<PlannedJob>& on, const std::vector<PlannedJob>& off);

/// By setting what each switch is worth, and planning time, as a table and as JSON: {"settings":
/// {name: steps}, "switches": [{"group", "name", "settings": {name: {"steps", "mean", "most",
/// "least", "lost"}}, "planning", "candidates"}]}, where the last two are ratios over the steps on
/// which the switch matters.
struct Ablation {
  std::string table;
  nlohmann::json json;
};
[[nodiscard]] Ablation run_ablation(const std::vector<Setting>& settings,
                                    const std::vector<Switch>& switches);

}  // namespace slimpack::bench
