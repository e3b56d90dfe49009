#include "slimpack/packflow/speculate/draft_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace slimpack {

DraftTree::DraftTree(std::int64_t token)
    : tokens{token}, parents{-1}, depths{0}, log_probability{0}, entropy{0} {}

std::int32_t DraftTree::add(std::int32_t parent, std::int64_t token,
                            double log_probability_after_parent) {
  const auto above = static_cast<std::size_t>(parent);
  tokens.push_back(token);
  parents.push_back(parent);
  depths.push_back(depths[above] + 1);
  // A head may say what is no number. Then nothing speaks for the guess.
  const double log_p = log_probability[above] + log_probability_after_parent;
  log_probability.push_back(std::isnan(log_p) ? -std::numeric_limits<double>::infinity() : log_p);
  entropy.push_back(0);
  return static_cast<std::int32_t>(size()) - 1;
}

DraftTree DraftTree::likeliest(std::int64_t rows) const {
  std::vector<std::int32_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = static_cast<std::size_t>(
      std::clamp<std::int64_t>(rows, 1, static_cast<std::int64_t>(size())));
  // A parent is at least as likely as its children and comes before them, so it is kept with them.
  const auto is_likelier = [&](std::int32_t a, std::int32_t b) {
    const double p = log_probability[static_cast<std::size_t>(a)];
    const double q = log_probability[static_cast<std::size_t>(b)];
    return p > q || (p == q && a < b);
  };
  std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(kept) - 1,
                           is_likelier);
  order.resize(kept);
  std::ranges::sort(order);
  std::vector<std::int32_t> row_of(size(), -1);
  DraftTree tree(tokens[0]);
  tree.entropy[0] = entropy[0];
  row_of[0] = 0;
  for (std::size_t i = 1; i < kept; ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    const auto parent = static_cast<std::size_t>(parents[from]);
    row_of[from] =
        tree.add(row_of[parent], tokens[from], log_probability[from] - log_probability[parent]);
    tree.entropy.back() = entropy[from];
  }
  return tree;
}

}  // namespace slimpack
