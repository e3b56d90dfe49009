// Decoding in simulated time: trees of known probabilities, passes of known cost.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/base/units.h"
#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack::testing {

/// Seconds of a machine, each with noise of a twentieth; one pass in 200 is interrupted and takes
/// five times as long.
struct SimulatedMachine {
  double first_level = 0;
  double further_level = 0;
  double pass = 0;       ///< of one row
  double row = 0;        ///< of each further row
  double draft_row = 0;  ///< of each further row that a level follows

  [[nodiscard]] double verification(std::int64_t rows) const {
    return pass + row * static_cast<double>(rows - 1);
  }
};

/// The draft gives its likeliest guess about `sureness`, each further one half of what is left. A
/// guess is right with `truth` times the draft's probability. Text is easy and hard by turns of
/// about forty passes: on hard text the draft is half as sure.
struct SimulatedText {
  double sureness = 0.8;
  double truth = 0.9;
};

class SimulatedDecoding {
 public:
  SimulatedDecoding(const SimulatedMachine& machine, const SimulatedText& text, std::uint64_t seed)
      : machine_(machine), text_(text), rng_(seed) {}

  [[nodiscard]] Nanos now() const { return now_; }

  /// Tokens a second over that many passes.
  double run(TreeRule& rule, int passes) {
    const Nanos begin = now_;
    double tokens = 0;
    for (int i = 0; i < passes; ++i) tokens += static_cast<double>(pass(rule));
    return tokens / to_seconds(now_ - begin);
  }

 private:
  void spend(double seconds) {
    now_ += from_seconds(seconds * (1 + 0.05 * std::clamp(rng_.normal(), -3.0, 3.0)));
  }

  void add_children(DraftTree& tree, std::int32_t row, std::int64_t width) {
    double left = 1;
    double p = std::clamp((hard_ ? 0.5 : 1.0) * text_.sureness + 0.15 * rng_.normal(), 0.05, 0.98);
    for (std::int64_t i = 0; i < width; ++i) {
      tree.add(row, i, std::log(p), Guesser::kHead, static_cast<std::int32_t>(i));
      left -= p;
      p = left / 2;
    }
  }

  DraftTree propose(TreeRule& rule) {
    DraftTree tree(0);
    std::vector<std::int32_t> level{0};
    for (std::int64_t depth = 0; rule.deeper(tree, depth); ++depth) {
      std::ranges::stable_sort(level, std::ranges::greater(), [&](std::int32_t row) {
        return tree.log_probability[static_cast<std::size_t>(row)];
      });
      level.resize(std::min(level.size(), static_cast<std::size_t>(rule.parents())));
      std::ranges::sort(level);
      const std::size_t begin = tree.size();
      for (const std::int32_t row : level) add_children(tree, row, rule.width());
      spend(depth == 0 ? machine_.first_level
                       : machine_.further_level +
                             machine_.draft_row * static_cast<double>(level.size() - 1));
      level.clear();
      for (std::size_t row = begin; row < tree.size(); ++row)
        level.push_back(static_cast<std::int32_t>(row));
    }
    return tree;
  }

  std::vector<std::int32_t> right_path(const DraftTree& tree) {
    std::vector<std::int32_t> path{0};
    double at = rng_.uniform();
    for (std::size_t row = 1; row < tree.size(); ++row) {
      if (tree.parents[row] != path.back()) continue;
      const auto parent = static_cast<std::size_t>(tree.parents[row]);
      at -= text_.truth * std::exp(tree.log_probability[row] - tree.log_probability[parent]);
      if (at >= 0) continue;
      path.push_back(static_cast<std::int32_t>(row));
      at = rng_.uniform();
    }
    return path;
  }

  std::size_t pass(TreeRule& rule) {
    if (rng_.below(40) == 0) hard_ = !hard_;
    const DraftTree whole = propose(rule);
    const DraftTree tree = rule.verified(whole);
    const bool interrupted = rng_.below(200) == 0;
    spend((interrupted ? 5 : 1) * machine_.verification(static_cast<std::int64_t>(tree.size())));
    const std::vector<std::int32_t> path = right_path(tree);
    rule.learn(tree, path);
    return path.size();
  }

  SimulatedMachine machine_;
  SimulatedText text_;
  Rng rng_;
  Nanos now_{0};
  bool hard_ = false;
};

}  // namespace slimpack::testing
