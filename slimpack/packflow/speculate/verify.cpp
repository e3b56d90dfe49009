#include <ATen/ops/argmax.h>

#include "slimpack/packflow/speculate/speculator.h"

namespace slimpack {
namespace {

std::vector<std::int32_t> children_of(const DraftTree& tree, std::int32_t row) {
  std::vector<std::int32_t> children;
  for (std::size_t r = static_cast<std::size_t>(row) + 1; r < tree.size(); ++r)
    if (tree.parents[r] == row) children.push_back(static_cast<std::int32_t>(r));
  return children;
}

/// The next right row and −1, or −1 and the next token.
struct Follower {
  std::int32_t row = -1;
  std::int64_t token = -1;
};

Follower likeliest_follower(const DraftTree& tree, std::int32_t row, std::int64_t token) {
  for (const std::int32_t child : children_of(tree, row))
    if (tree.tokens[static_cast<std::size_t>(child)] == token) return {child, -1};
  return {-1, token};
}

Follower drawn_follower(const DraftTree& tree, std::int32_t row, std::vector<double> p,
                        Sampler& sampler) {
  double left = 1;
  for (const std::int32_t child : children_of(tree, row)) {
    double& of_guess = p[static_cast<std::size_t>(tree.tokens[static_cast<std::size_t>(child)])];
    if (left > 0 && sampler.happens(of_guess / left)) return {child, -1};
    left -= of_guess;
    of_guess = 0;
  }
  return {-1, sampler.draw(p)};
}

}  // namespace

Verdict verify(const DraftTree& tree, const at::Tensor& logits_TV, Sampler& sampler) {
  at::Tensor likeliest;
  if (sampler.greedy()) likeliest = at::argmax(logits_TV, 1);
  Verdict verdict;
  for (std::int32_t row = 0; row >= 0;) {
    verdict.path.push_back(row);
    const Follower next =
        sampler.greedy()
            ? likeliest_follower(tree, row, likeliest.const_data_ptr<std::int64_t>()[row])
            : drawn_follower(tree, row, sampler.probabilities(logits_TV[row]), sampler);
    row = next.row;
    verdict.next = next.token;
  }
  return verdict;
}

}  // namespace slimpack
