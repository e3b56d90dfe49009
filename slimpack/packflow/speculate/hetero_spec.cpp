#include "slimpack/packflow/speculate/hetero_spec.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace slimpack {
namespace {

/// The likeliest row of a level, the first of equals; none where the tree has no such level.
std::optional<std::size_t> best_row(const DraftTree& tree, std::int64_t depth) {
  std::optional<std::size_t> best;
  for (std::size_t row = 0; row < tree.size(); ++row)
    if (tree.depths[row] == depth &&
        (!best || tree.log_probability[row] > tree.log_probability[*best]))
      best = row;
  return best;
}

/// Over the rows that guesses were made after on the way to a row.
double path_entropy(const DraftTree& tree, std::size_t row) {
  double sum = 0;
  for (std::int32_t r = tree.parents[row]; r >= 0; r = tree.parents[static_cast<std::size_t>(r)])
    sum += tree.entropy[static_cast<std::size_t>(r)];
  return sum;
}

}  // namespace

HeteroSpecTree::HeteroSpecTree(const EntropyBins& bins) : bins_(bins), now_(bins.base) {
  bins.base.require_sound();
}

TreeSize HeteroSpecTree::size_of(const DraftTree& tree) const {
  constexpr std::array kRowShares{0.3, 0.6, 1.0};
  TreeSize size = bins_.base;
  const std::optional<std::size_t> best = best_row(tree, size.depth);
  if (!best) return size;
  const std::size_t bin = bins_.bin(path_entropy(tree, *best));
  if (bin >= kRowShares.size()) return size;
  const std::int64_t alpha = (size.depth + 1) / 2;
  const std::int64_t more = std::max<std::int64_t>(0, alpha - static_cast<std::int64_t>(bin));
  const std::int64_t share = std::llround(kRowShares[bin] * static_cast<double>(size.rows));
  size.depth += more;
  size.rows = std::max<std::int64_t>(2, share + more);
  return size;
}

bool HeteroSpecTree::deeper(const DraftTree& tree, std::int64_t depth) {
  if (depth == 0) now_ = bins_.base;
  if (depth == bins_.base.depth) now_ = size_of(tree);
  return depth < now_.depth;
}

EntropyRecorder::EntropyRecorder(const TreeSize& base, std::vector<EntropyRecord>& records)
    : base_(base), records_(&records) {
  base.require_sound();
}

void EntropyRecorder::learn(const DraftTree& verified, std::span<const std::int32_t> path) {
  // If the best path's last row was not verified, the path was not accepted either.
  if (static_cast<std::int64_t>(path.size()) <= base_.depth) return;
  const std::optional<std::size_t> best = best_row(verified, base_.depth);
  if (!best || static_cast<std::size_t>(path[static_cast<std::size_t>(base_.depth)]) != *best)
    return;
  const double p = verified.log_probability[*best];
  const auto before =
      std::ranges::count_if(verified.log_probability, [p](double other) { return other > p; });
  records_->push_back({path_entropy(verified, *best), before + 1});
}

}  // namespace slimpack
