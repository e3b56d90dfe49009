// Ways to run a step of the same documents, in turn, so that all see the same machine, and their
// comparison. A machine whose speed drifts from minute to minute is most alike within a turn;
// quotients of medians may set a slow moment of one way against a fast one of the other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// A way to run the step, and what came of each turn.
struct Way {
  std::string name;
  Engine* engine = nullptr;  ///< not owned; ways may share one
  RunnablePlan planned;
  std::vector<StepResult> results = {};  ///< by turn
  std::vector<double> stolen = {};       ///< seconds that went to other machines, by turn

  [[nodiscard]] std::vector<double> all_seconds() const;
  [[nodiscard]] std::vector<double> all_busy_seconds() const;  ///< of all ranks together
  [[nodiscard]] std::vector<Timeline> timelines() const;
};

/// Adds the results of so many turns and tells each step's time on stderr. The turn before them is
/// not counted: it touches the memory that every later step of a training run finds at hand.
/// `before_turn` is called at the start of each that counts. REQUIRES: the ways' engines exist.
void run_in_turn(std::vector<Way>& ways, const StepTokens& tokens, const TrainConfig& train,
                 int turns, const std::function<void()>& before_turn = {});

/// factor · a[turn] ÷ b[turn]. REQUIRES: as many of both.
[[nodiscard]] std::vector<double> by_turn(const std::vector<double>& a,
                                          const std::vector<double>& b, double factor = 1);

/// "0.980 (0.970, 0.980, 1.010)": the median and each turn's. REQUIRES: not empty.
[[nodiscard]] std::string turns_text(const std::vector<double>& quotients);

}  // namespace slimpack
