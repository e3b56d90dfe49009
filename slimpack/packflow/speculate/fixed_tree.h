// A tree of the same depth and number of rows each time: EAGLE-2 and EAGLE-3 (arXiv:2406.16858,
// 2503.01840).
#pragma once

#include "slimpack/packflow/speculate/tree_rule.h"

namespace slimpack {

class FixedTree final : public TreeRule {
 public:
  /// Throws as TreeSize::require_sound.
  explicit FixedTree(const TreeSize& size) : size_(size) { size.require_sound(); }

  [[nodiscard]] std::int64_t width() const override { return size_.width; }
  [[nodiscard]] bool deeper(const DraftTree& /*tree*/, std::int64_t depth) override {
    return depth < size_.depth;
  }
  [[nodiscard]] DraftTree verified(const DraftTree& tree) override {
    return tree.likeliest(size_.rows);
  }
  void learn(const DraftTree& /*verified*/, std::span<const std::int32_t> /*path*/) override {}

 private:
  TreeSize size_;
};

}  // namespace slimpack
