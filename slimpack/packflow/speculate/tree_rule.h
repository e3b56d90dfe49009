// Tree rules decide how much a draft guesses and the model verifies.
#pragma once

#include <cstdint>
#include <span>

#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {

/// How large trees are.
struct TreeSize {
  /// The deepest that may be asked for. A rule's own trees are at most half as deep again.
  static constexpr std::int64_t kMostDepth = 40;
  /// More rows take the time of a long prompt at each pass, and more guesses after a token are
  /// hardly ever right.
  static constexpr std::int64_t kMostRows = 256, kMostWidth = 64;

  std::int64_t depth = 6;   ///< guesses one after the other
  std::int64_t rows = 60;   ///< verified together, row 0 included
  std::int64_t width = 10;  ///< guesses after each row

  bool operator==(const TreeSize&) const = default;
  /// Throws InvalidInput unless there is room for a guess, and none exceeds its bound.
  void require_sound() const;
};

/// For each pass a draft asks deeper() before it guesses anything and again after each level. Then
/// verified() is asked, and after the verification learn().
class TreeRule {
 public:
  virtual ~TreeRule() = default;

  /// Guesses after each row that a draft with probabilities makes.
  [[nodiscard]] virtual std::int64_t width() const = 0;
  /// After how many rows of the last level, the likeliest ones, the next level guesses. Asked after
  /// deeper() said so.
  [[nodiscard]] virtual std::int64_t parents() const { return width(); }
  /// Whether to guess one token further than the draft did, which made `depth` levels of guesses.
  /// The tree may have rows of another draft that guessed before.
  [[nodiscard]] virtual bool deeper(const DraftTree& tree, std::int64_t depth) = 0;
  /// The part of the tree that the model verifies; row 0 alone = no guess.
  [[nodiscard]] virtual DraftTree verified(const DraftTree& tree) = 0;
  /// Learns from a verified tree and the rows of it that were right, from row 0 on, by depth.
  virtual void learn(const DraftTree& verified, std::span<const std::int32_t> path) = 0;
};

}  // namespace slimpack
