// All published steps predicted and held against their measurements.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/published/job.h"
#include "bench/statistics.h"

namespace slimpack::bench {

/// A published step with its prediction, or with the reason why there is none.
struct Outcome {
  PublishedStep step;
  std::string set;          ///< as reported: of vTrain's, which half or which tensor parallelism
  double seconds = 0;       ///< predicted; 0 = not expressed
  double memory = 0;        ///< predicted bytes
  std::string not_because;  ///< empty if it is expressed

  [[nodiscard]] bool expressed() const { return not_because.empty(); }
  [[nodiscard]] bool timed() const { return expressed() && step.seconds > 0; }
  [[nodiscard]] bool weighed() const { return expressed() && step.memory > 0; }
  [[nodiscard]] Compared time() const { return {seconds, step.seconds}; }
  [[nodiscard]] Compared bytes() const { return {memory, step.memory}; }
};

/// In the order of the steps. `progress` is called after each.
[[nodiscard]] std::vector<Outcome> evaluate(const std::vector<PublishedStep>& steps,
                                            const Machines& machines,
                                            const std::function<void()>& progress);

struct SetFigures {
  std::int64_t steps = 0;     ///< expressed
  std::int64_t left_out = 0;  ///< not expressed
  Errors time, memory;
  /// Pairs of layouts within a group: layouts of one model, batch and number of GPUs, at least 3 of
  /// them.
  RankedPairs ranking;
  std::vector<double> choice_losses = {};  ///< by group
};
/// The figures of each set.
[[nodiscard]] std::map<std::string, SetFigures> figures_of(const std::vector<Outcome>& outcomes);

}  // namespace slimpack::bench
