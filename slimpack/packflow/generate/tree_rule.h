// Tree rules decide how much a draft guesses and the model verifies.
#pragma once

#include <cstdint>
#include <span>

#include "slimpack/packflow/generate/draft_tree.h"

namespace slimpack {

class TreeRule {
 public:
  virtual ~TreeRule() = default;

  /// Guesses after each row that a draft with probabilities makes.
  [[nodiscard]] virtual std::int64_t width() const = 0;
  /// Whether to guess one token further than the tree does, which has `depth` levels of guesses.
  [[nodiscard]] virtual bool deeper(const DraftTree& tree, std::int64_t depth) = 0;
  /// How many of the tree's likeliest rows to verify, row 0 included.
  [[nodiscard]] virtual std::int64_t rows(const DraftTree& tree) = 0;
  /// Told of a verified tree and the rows of it that were right, from row 0 on, by depth.
  virtual void learn(const DraftTree& verified, std::span<const std::int32_t> path) = 0;
};

}  // namespace slimpack
