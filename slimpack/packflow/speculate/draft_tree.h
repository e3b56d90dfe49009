// Draft trees: guesses of the tokens that follow a token, which the model verifies in one pass.
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

}  // namespace slimpack
