// A tree of the same depth and number of rows each time: EAGLE-2 and EAGLE-3 (arXiv:2406.16858,
// 2503.01840).
#pragma once

#include "slimpack/packflow/generate/tree_rule.h"

namespace slimpack {

class FixedTree final : public TreeRule {
 public:
  /// Throws InvalidInput unless all are 1 or more, and rows 2.
  FixedTree(std::int64_t depth, std::int64_t rows, std::int64_t width);

  [[nodiscard]] std::int64_t width() const override { return width_; }
  [[nodiscard]] bool deeper(const DraftTree& /*tree*/, std::int64_t depth) override {
    return depth < depth_;
  }
  [[nodiscard]] std::int64_t rows(const DraftTree& /*tree*/) override { return rows_; }
  void learn(const DraftTree& /*verified*/, std::span<const std::int32_t> /*path*/) override {}

 private:
  std::int64_t depth_, rows_, width_;
};

}  // namespace slimpack
