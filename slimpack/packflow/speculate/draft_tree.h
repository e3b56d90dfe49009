// Draft trees: guesses of the tokens that follow a token, which the model verifies in one pass, and
// the rules that decide how much a draft guesses and the model verifies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slimpack {

/// The drafts that made a guess.
enum class Guesser : std::uint8_t { kHead, kNgrams, kBoth };
inline constexpr std::size_t kGuessers = 3;

/// Rows, parents before children. Row 0 is the token that the guesses follow.
struct DraftTree {
  std::vector<std::int64_t> tokens;
  std::vector<std::int32_t> parents;    ///< rows; −1 of row 0
  std::vector<std::int32_t> depths;     ///< 0 of row 0
  std::vector<double> log_probability;  ///< by the draft, of all guesses from row 0 to the row
  std::vector<Guesser> guessers;        ///< kHead of row 0
  /// How many guesses after the same row the draft thought likelier; 0 of row 0.
  std::vector<std::int32_t> ranks;
  /// Entropy in nats of the draft's likeliest guesses after a row, their probabilities scaled to 1;
  /// 0 where it guessed none.
  std::vector<double> entropy;

  explicit DraftTree(std::int64_t token);

  [[nodiscard]] std::size_t size() const { return tokens.size(); }  ///< rows
  /// The log-probability of the guess of a row from 1 on, given the row before it.
  [[nodiscard]] double conditional_log_probability(std::size_t row) const;
  /// Appends a guess after a row, whose probability given that row is exp(log_p). Returns its row.
  std::int32_t add(std::int32_t parent, std::int64_t token, double log_p,
                   Guesser guesser = Guesser::kHead, std::int32_t rank = 0);
  /// A second draft makes the guess of a row, too. Its probability and rank become the second
  /// draft's. Cost: O(rows).
  void join(std::int32_t row, double log_p, std::int32_t rank = 0);

  /// The tree of the `rows` rows of highest worth, the earlier of equal ones; the whole tree where
  /// it has no more rows. REQUIRES: no row is worth more than its parent.
  [[nodiscard]] DraftTree best(std::span<const double> worth, std::int64_t rows) const;
  /// best() by the draft's own probability.
  [[nodiscard]] DraftTree likeliest(std::int64_t rows) const { return best(log_probability, rows); }
};

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

/// A tree of the same depth and number of rows each time: EAGLE-2 and EAGLE-3 (arXiv:2406.16858,
/// 2503.01840).
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
