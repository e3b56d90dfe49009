#include "slimpack/packflow/speculate/expected_speed.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace slimpack {
namespace {

/// The weight that a continuation's figures keep from each pass to the one after it.
constexpr double kSpeedDecay = 127.0 / 128;
/// The account, in plain passes: at first, at most, and what comes in each pass.
constexpr double kFirstCredit = 2, kMostCredit = 16, kIncome = 0.01;

}  // namespace

void ExpectedSpeedTree::Continuation::forget() {
  const Continuation first;
  parents = first.parents + kSpeedDecay * (parents - first.parents);
  worth = first.worth + kSpeedDecay * (worth - first.worth);
}

ExpectedSpeedTree::ExpectedSpeedTree(const TreeSize& most, VerificationCosts costs, Clock clock)
    : most_(most),
      costs_(std::move(costs)),
      clock_(std::move(clock)),
      continuations_(static_cast<std::size_t>(most.depth)),
      account_(kFirstCredit * costs_.seconds(1)) {
  most.require_sound();
}

double ExpectedSpeedTree::lap() {
  const Nanos now = clock_();
  const double seconds = to_seconds(now - last_);
  last_ = now;
  return seconds;
}

ExpectedSpeedTree::Continuation& ExpectedSpeedTree::continuation(std::int64_t depth) {
  return continuations_[static_cast<std::size_t>(depth)];
}

double ExpectedSpeedTree::level_seconds(std::int64_t depth, std::int64_t parents) const {
  return depth > 0 && further_level_.seconds() > 0
             ? further_level_.seconds() * costs_.seconds(parents)
             : first_level_.seconds();
}

void ExpectedSpeedTree::begin_pass(const DraftTree& tree) {
  lap();
  asked_ = 0;
  drafting_ = 0;
  const double plain = 1 / costs_.seconds(1);
  rate_ = seconds_ > 0 ? std::max(plain, tokens_ / seconds_) : plain;
  rate(tree);
  for (Continuation& c : continuations_) c.forget();
  guesses_ = account_ > first_level_.seconds();
}

void ExpectedSpeedTree::rate(const DraftTree& tree) {
  right_.assign(1, 1.0);
  // At most one guess after a row is right.
  std::vector<double> left(tree.size(), 1.0);
  for (std::size_t row = 1; row < tree.size(); ++row) {
    const auto parent = static_cast<std::size_t>(tree.parents[row]);
    const double given_parent = std::min(acceptance_.of(tree, row), left[parent]);
    left[parent] -= given_parent;
    right_.push_back(right_[parent] * given_parent);
  }
  likeliest_.resize(std::min(right_.size(), static_cast<std::size_t>(most_.rows)));
  std::ranges::partial_sort_copy(right_, likeliest_, std::greater<>());
}

void ExpectedSpeedTree::end_level(const DraftTree& tree) {
  if (asked_ == 0) return;
  const double took = lap();
  drafting_ += took;
  if (asked_ == 1)
    first_level_.add(took);
  else
    further_level_.add(took / costs_.seconds(parent_rows_));
  const double worth_before = best_choice().worth;
  rate(tree);
  Continuation& c = continuation(asked_ - 1);
  c.parents += parents_;
  c.worth += best_choice().worth - worth_before;
  asked_ = 0;
}

ExpectedSpeedTree::Choice ExpectedSpeedTree::best_choice() const {
  Choice best;
  const double one = costs_.seconds(1);
  double tokens = 0;
  for (std::size_t i = 1; i < likeliest_.size(); ++i) {
    tokens += likeliest_[i];
    const auto rows = static_cast<std::int64_t>(i) + 1;
    const double worth = tokens - rate_ * (costs_.seconds(rows) - one);
    if (worth > best.worth) best = {rows, worth};
  }
  return best;
}

std::vector<double> ExpectedSpeedTree::open_parents(const DraftTree& tree,
                                                    std::int64_t depth) const {
  std::vector<double> open = right_;
  for (std::size_t row = 1; row < tree.size(); ++row)
    open[static_cast<std::size_t>(tree.parents[row])] -= right_[row];
  std::vector<double> level;
  for (std::size_t row = 0; row < tree.size(); ++row)
    if (tree.depths[row] == depth) level.push_back(std::max(0.0, open[row]));
  std::vector<double> likeliest(std::min(level.size(), static_cast<std::size_t>(most_.width)));
  std::ranges::partial_sort_copy(level, likeliest, std::greater<>());
  return likeliest;
}

double ExpectedSpeedTree::choose_parents(const std::vector<double>& open, std::int64_t depth) {
  const Continuation& c = continuation(depth);
  double best = -std::numeric_limits<double>::infinity(), parents = 0;
  for (std::size_t i = 0; i < open.size(); ++i) {
    parents += open[i];
    const auto rows = static_cast<std::int64_t>(i) + 1;
    const double gain = parents * c.worth / c.parents - rate_ * level_seconds(depth, rows);
    if (gain <= best) continue;
    best = gain;
    parent_rows_ = rows;
    parents_ = parents;
  }
  return best;
}

bool ExpectedSpeedTree::deeper(const DraftTree& tree, std::int64_t depth) {
  if (depth == 0) begin_pass(tree);
  end_level(tree);
  if (depth == 0 ? !guesses_ : depth >= std::min(most_.depth, 2 * longest_ + 1)) return false;
  // The first level is made in any case, so that its worth is known, unless another draft has made
  // guesses.
  if (choose_parents(open_parents(tree, depth), depth) <= 0 && tree.size() > 1) return false;
  asked_ = depth + 1;
  return true;
}

DraftTree ExpectedSpeedTree::verified(const DraftTree& tree) {
  end_level(tree);
  drafting_ += lap();
  return guesses_ ? tree.best(right_, best_choice().rows) : DraftTree(tree.tokens[0]);
}

void ExpectedSpeedTree::learn(const DraftTree& verified, std::span<const std::int32_t> path) {
  const double verifying = lap();
  const auto rows = static_cast<std::int64_t>(verified.size());
  const double expected = costs_.seconds(rows);
  // A pass that was interrupted says nothing about guessing.
  const double seconds = drafting_ + std::min(verifying, 2 * expected);
  const auto tokens = static_cast<double>(path.size());
  longest_ = std::max(longest_, static_cast<std::int64_t>(path.size()) - 1);
  costs_.observe(rows, verifying);
  acceptance_.learn(verified, path);
  tokens_ = tokens_ * kSpeedDecay + tokens;
  seconds_ = seconds_ * kSpeedDecay + seconds;
  const double plain = costs_.seconds(1);
  if (guesses_) account_ += tokens * plain - drafting_ - expected;
  account_ = std::clamp(account_ + kIncome * plain, -kMostCredit * plain, kMostCredit * plain);
}

}  // namespace slimpack
