// HeteroSpec's tree (arXiv:2505.13254): deeper and narrower where the draft is certain.
//
// 1. The draft guesses d levels, as many as the base tree has.
// 2. H = sum of the entropies along the best path, which leads to the likeliest row of level d.
// 3. H falls into one of eight bins. In bin i < 3 the tree gets α − i levels more, α = ⌈d/2⌉, and
//    γ_i · N + (α − i) of its N rows are verified, γ = 0.3, 0.6, 1. Else the tree is the base tree.
//
// The paper leaves open what we decide so: bins count from 0; the likeliest row is that of the
// highest product of probabilities; entropies are those of the draft's `width` likeliest guesses.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/speculate/draft_tree.h"
#include "slimpack/packflow/speculate/entropy_bins.h"

namespace slimpack {

class HeteroSpecTree final : public TreeRule {
 public:
  /// Throws as TreeSize::require_sound.
  explicit HeteroSpecTree(const EntropyBins& bins);

  [[nodiscard]] std::int64_t width() const override { return bins_.base.width; }
  [[nodiscard]] bool deeper(const DraftTree& tree, std::int64_t depth) override;
  [[nodiscard]] DraftTree verified(const DraftTree& tree) override {
    return tree.likeliest(now_.rows);
  }
  void learn(const DraftTree& /*verified*/, std::span<const std::int32_t> /*path*/) override {}

 private:
  [[nodiscard]] TreeSize size_of(const DraftTree& tree) const;

  EntropyBins bins_;
  TreeSize now_;  ///< of the tree that is being made
};

/// The base tree each time; keeps what bins are fitted to.
class EntropyRecorder final : public TreeRule {
 public:
  /// Appends to `records`, which it does not own. Throws as TreeSize::require_sound.
  EntropyRecorder(const TreeSize& base, std::vector<EntropyRecord>& records);

  [[nodiscard]] std::int64_t width() const override { return base_.width; }
  [[nodiscard]] bool deeper(const DraftTree& /*tree*/, std::int64_t depth) override {
    return depth < base_.depth;
  }
  [[nodiscard]] DraftTree verified(const DraftTree& tree) override {
    return tree.likeliest(base_.rows);
  }
  void learn(const DraftTree& verified, std::span<const std::int32_t> path) override;

 private:
  TreeSize base_;
  std::vector<EntropyRecord>* records_;
};

}  // namespace slimpack
