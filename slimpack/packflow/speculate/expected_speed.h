// The tree that promises most tokens a second, by measured times and by how often guesses like
// these were right.
//
// 1. Each guess gets the probability that it is right: that of its parent times what Acceptance
//    makes of the draft's. At most one of the guesses after a row is right. The expected tokens of
//    a pass are 1 + the sum over the verified rows.
// 2. A second is worth R tokens, the speed of late. The draft guesses another level, after as many
//    rows of the last one as pay, as long as the tokens that levels like it brought are worth more
//    than its time and that of more rows. At first it guesses no deeper than twice what was right,
//    and one more.
//    Where another draft guessed before, what counts is how likely its guesses are wrong.
// 3. As many rows are verified as make expected tokens − R · seconds largest.
// 4. An account holds what guessing won over plain decoding or lost to it. Without credit nothing
//    is guessed. A hundredth of plain decoding's time comes in each pass, for another try.
//
// By step 4, text that no draft suits costs a hundredth, and a bounded start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "slimpack/base/median.h"
#include "slimpack/base/units.h"
#include "slimpack/packflow/speculate/acceptance.h"
#include "slimpack/packflow/speculate/draft_tree.h"
#include "slimpack/packflow/speculate/verification_costs.h"

namespace slimpack {

/// The typical one of recent times, whatever single ones are.
class TypicalTime {
 public:
  void add(double seconds) {
    if (recent_.size() < kRecent)
      recent_.push_back(seconds);
    else
      recent_[next_++ % kRecent] = seconds;
    median_ = median(recent_);
  }
  /// The median of the last fifteen; 0 without any.
  [[nodiscard]] double seconds() const { return median_; }

 private:
  static constexpr std::size_t kRecent = 15;
  std::vector<double> recent_;
  std::size_t next_ = 0;
  double median_ = 0;
};

/// Measures by itself, between the calls of a pass. The trees that it makes depend on these times;
/// the tokens that verification accepts do not.
class ExpectedSpeedTree final : public TreeRule {
 public:
  using Clock = std::function<Nanos()>;

  /// Trees of `most` at most. Throws as TreeSize::require_sound.
  ExpectedSpeedTree(const TreeSize& most, VerificationCosts costs, Clock clock);

  [[nodiscard]] std::int64_t width() const override { return most_.width; }
  [[nodiscard]] std::int64_t parents() const override { return parent_rows_; }
  [[nodiscard]] bool deeper(const DraftTree& tree, std::int64_t depth) override;
  [[nodiscard]] DraftTree verified(const DraftTree& tree) override;
  void learn(const DraftTree& verified, std::span<const std::int32_t> path) override;

 private:
  /// The worth that levels of one depth lately had for the rows that they followed. In passes that
  /// ask for no such level it returns to its first value, so that a level is tried again.
  struct Continuation {
    double parents = 1;  ///< the sum of open_parents() that were followed
    double worth = 0.7;  ///< expected right guesses, less what their rows cost

    void forget();
  };
  /// How many of some rows pay, and their worth: tokens − R · seconds, row 0 not counted.
  struct Choice {
    std::int64_t rows = 1;
    double worth = 0;
  };

  double lap();
  void begin_pass(const DraftTree& tree);
  /// Measures the level that the draft was told to make, and rates its rows.
  void end_level(const DraftTree& tree);
  void rate(const DraftTree& tree);
  /// The probabilities that a row of the last level is right and that no guess after it is, for the
  /// rows that the next level may follow. Descending.
  [[nodiscard]] std::vector<double> open_parents(const DraftTree& tree, std::int64_t depth) const;
  /// Chooses how many of the `open` rows to follow. Returns the worth of that level, less its time.
  double choose_parents(const std::vector<double>& open, std::int64_t depth);
  [[nodiscard]] Choice best_choice() const;
  [[nodiscard]] Continuation& continuation(std::int64_t depth);
  /// The seconds of the level after `depth` levels, which follows so many rows. A level's time
  /// grows with its rows as a verification's does. Until there was another level, it is the first
  /// one's time.
  [[nodiscard]] double level_seconds(std::int64_t depth, std::int64_t parents) const;

  TreeSize most_;
  VerificationCosts costs_;
  Clock clock_;
  Acceptance acceptance_;
  TypicalTime first_level_;
  TypicalTime further_level_;                ///< ÷ the time of a verification of as many rows
  std::vector<Continuation> continuations_;  ///< by depth of the parents
  double tokens_ = 0, seconds_ = 0;          ///< of late
  double account_ = 0;                       ///< seconds
  std::int64_t longest_ = 0;                 ///< right guesses in a row, ever

  // The pass in progress.
  Nanos last_{0};
  bool guesses_ = false;
  std::int64_t asked_ = 0;         ///< level in progress, from 1 on; 0 = none
  std::int64_t parent_rows_ = 1;   ///< that it follows
  double parents_ = 0;             ///< their open_parents() together
  double drafting_ = 0;            ///< seconds so far
  double rate_ = 0;                ///< R
  std::vector<double> right_;      ///< by row: the probability that it is right
  std::vector<double> likeliest_;  ///< the highest of these, descending, as many as may be verified
};

}  // namespace slimpack
