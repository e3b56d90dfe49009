#include "slimpack/packflow/speculate/draft_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// A head's answer may be no number. Then nothing speaks for the guess.
double sound(double log_p) {
  return std::isnan(log_p) ? -std::numeric_limits<double>::infinity() : log_p;
}

}  // namespace

DraftTree::DraftTree(std::int64_t token)
    : tokens{token},
      parents{-1},
      depths{0},
      log_probability{0},
      guessers{Guesser::kHead},
      ranks{0},
      entropy{0} {}

double DraftTree::conditional_log_probability(std::size_t row) const {
  return log_probability[row] - log_probability[static_cast<std::size_t>(parents[row])];
}

std::int32_t DraftTree::add(std::int32_t parent, std::int64_t token, double log_p, Guesser guesser,
                            std::int32_t rank) {
  const auto above = static_cast<std::size_t>(parent);
  tokens.push_back(token);
  parents.push_back(parent);
  depths.push_back(depths[above] + 1);
  log_probability.push_back(sound(log_probability[above] + log_p));
  guessers.push_back(guesser);
  ranks.push_back(rank);
  entropy.push_back(0);
  return static_cast<std::int32_t>(size()) - 1;
}

void DraftTree::join(std::int32_t row, double log_p, std::int32_t rank) {
  const auto joined = static_cast<std::size_t>(row);
  guessers[joined] = Guesser::kBoth;
  ranks[joined] = rank;
  std::vector<double> after_parent(size());
  for (std::size_t r = joined + 1; r < size(); ++r)
    after_parent[r] = conditional_log_probability(r);
  after_parent[joined] = log_p;
  std::vector<bool> below(size());
  for (std::size_t r = joined; r < size(); ++r) {
    const auto parent = static_cast<std::size_t>(parents[r]);
    below[r] = r == joined || below[parent];
    if (below[r]) log_probability[r] = sound(log_probability[parent] + after_parent[r]);
  }
}

DraftTree DraftTree::best(std::span<const double> worth, std::int64_t rows) const {
  std::vector<std::int32_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = static_cast<std::size_t>(
      std::clamp<std::int64_t>(rows, 1, static_cast<std::int64_t>(size())));
  // A parent is worth no less than its children and comes before them, so it is kept with them.
  const auto is_better = [&](std::int32_t a, std::int32_t b) {
    const double p = worth[static_cast<std::size_t>(a)], q = worth[static_cast<std::size_t>(b)];
    return p > q || (p == q && a < b);
  };
  std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(kept) - 1, is_better);
  order.resize(kept);
  std::ranges::sort(order);
  std::vector<std::int32_t> row_of(size(), -1);
  DraftTree tree(tokens[0]);
  tree.entropy[0] = entropy[0];
  row_of[0] = 0;
  for (std::size_t i = 1; i < kept; ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    row_of[from] = tree.add(row_of[static_cast<std::size_t>(parents[from])], tokens[from],
                            conditional_log_probability(from), guessers[from], ranks[from]);
    tree.entropy.back() = entropy[from];
  }
  return tree;
}

void TreeSize::require_sound() const {
  const auto require_at_most = [](const char* name, std::int64_t value, std::int64_t most) {
    if (value > most) invalid_input("{} is {}, it must be at most {}", name, value, most);
  };
  if (depth < 1) invalid_input("draft-depth is {}, it must be 1 or more", depth);
  if (rows < 2)
    invalid_input("draft-rows is {}, it must be 2 (one guess beside the last token) or more", rows);
  if (width < 1) invalid_input("draft-width is {}, it must be 1 or more", width);
  require_at_most("draft-depth", depth, kMostDepth);
  require_at_most("draft-rows", rows, kMostRows);
  require_at_most("draft-width", width, kMostWidth);
}

}  // namespace slimpack
