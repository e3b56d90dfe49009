#include "slimpack/packflow/speculate/expected_speed.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace slimpack {
namespace {

/// Of each pass to the one after it.
constexpr double kDecay = 127.0 / 128;
/// The account, in plain passes: at first, at most, and what comes in each pass.
constexpr double kFirstCredit = 2, kMostCredit = 16, kIncome = 0.01;

}  // namespace

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

double ExpectedSpeedTree::further_level_seconds() const {
  return further_level_.seconds() > 0 ? further_level_.seconds() : first_level_.seconds();
}

void ExpectedSpeedTree::begin_pass() {
  lap();
  asked_ = 0;
  drafting_ = 0;
  const double plain = 1 / costs_.seconds(1);
  rate_ = seconds_ > 0 ? std::max(plain, tokens_ / seconds_) : plain;
  right_.assign(1, 1.0);
  likeliest_.assign(1, 1.0);
  guesses_ = account_ > first_level_.seconds();
}

void ExpectedSpeedTree::rate_new_rows(const DraftTree& tree) {
  const auto most = static_cast<std::size_t>(most_.rows);
  for (std::size_t row = right_.size(); row < tree.size(); ++row) {
    const auto parent = static_cast<std::size_t>(tree.parents[row]);
    const double p = std::exp(tree.log_probability[row] - tree.log_probability[parent]);
    const double right = right_[parent] * acceptance_.of(p, tree.depths[row]);
    right_.push_back(right);
    if (likeliest_.size() == most && right <= likeliest_.back()) continue;
    if (likeliest_.size() == most) likeliest_.pop_back();
    likeliest_.insert(std::ranges::upper_bound(likeliest_, right, std::greater<>()), right);
  }
}

void ExpectedSpeedTree::end_level(const DraftTree& tree) {
  if (asked_ == 0) return;
  const double took = lap();
  drafting_ += took;
  (asked_ == 1 ? first_level_ : further_level_).add(took);
  const double worth_before = best_choice(likeliest_).worth;
  rate_new_rows(tree);
  Continuation& c = continuation(asked_ - 1);
  c.parents = c.parents * kDecay + parents_;
  c.worth = c.worth * kDecay + best_choice(likeliest_).worth - worth_before;
  asked_ = 0;
}

ExpectedSpeedTree::Choice ExpectedSpeedTree::best_choice(std::span<const double> right) const {
  Choice best;
  const double one = costs_.seconds(1);
  double tokens = 0;
  for (std::size_t i = 1; i < right.size(); ++i) {
    tokens += right[i];
    const auto rows = static_cast<std::int64_t>(i) + 1;
    const double worth = tokens - rate_ * (costs_.seconds(rows) - one);
    if (worth > best.worth) best = {rows, worth};
  }
  return best;
}

double ExpectedSpeedTree::right_parents(const DraftTree& tree, std::int64_t depth) const {
  std::vector<double> level;
  for (std::size_t row = tree.size(); row-- > 0 && tree.depths[row] == depth;)
    level.push_back(right_[row]);
  const auto parents = std::min(level.size(), static_cast<std::size_t>(most_.width));
  const auto end = level.begin() + static_cast<std::ptrdiff_t>(parents);
  std::ranges::partial_sort(level, end, std::greater<>());
  return std::accumulate(level.begin(), end, 0.0);
}

bool ExpectedSpeedTree::deeper(const DraftTree& tree, std::int64_t depth) {
  if (depth == 0) begin_pass();
  end_level(tree);
  if (depth == 0 ? !guesses_ : depth >= std::min(most_.depth, 2 * longest_ + 1)) return false;
  parents_ = right_parents(tree, depth);
  const Continuation& c = continuation(depth);
  if (depth > 0 && parents_ * c.worth / c.parents <= rate_ * further_level_seconds()) return false;
  asked_ = depth + 1;
  return true;
}

std::int64_t ExpectedSpeedTree::rows(const DraftTree& tree) {
  end_level(tree);
  drafting_ += lap();
  if (tree.size() == 1) return 1;
  // In the order in which likeliest() takes them.
  std::vector<std::size_t> order(tree.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto most = std::min(order.size(), static_cast<std::size_t>(most_.rows));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(most),
                            [&](std::size_t a, std::size_t b) {
                              const double p = tree.log_probability[a], q = tree.log_probability[b];
                              return p > q || (p == q && a < b);
                            });
  std::vector<double> right;
  for (std::size_t i = 0; i < most; ++i) right.push_back(right_[order[i]]);
  return best_choice(right).rows;
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
  tokens_ = tokens_ * kDecay + tokens;
  seconds_ = seconds_ * kDecay + seconds;
  const double plain = costs_.seconds(1);
  if (guesses_) account_ += tokens * plain - seconds;
  account_ = std::clamp(account_ + kIncome * plain, -kMostCredit * plain, kMostCredit * plain);
}

}  // namespace slimpack
