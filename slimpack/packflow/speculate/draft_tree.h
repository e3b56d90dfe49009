// Draft trees: guesses of the tokens that follow a token, which the model verifies in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slimpack {

/// Rows, parents before children. Row 0 is the token that the guesses follow.
struct DraftTree {
  std::vector<std::int64_t> tokens;
  std::vector<std::int32_t> parents;    ///< rows; −1 of row 0
  std::vector<std::int32_t> depths;     ///< 0 of row 0
  std::vector<double> log_probability;  ///< by the draft, of all guesses from row 0 to the row
  /// Entropy in nats of the draft's likeliest guesses after a row, their probabilities scaled to 1;
  /// 0 where it guessed none.
  std::vector<double> entropy;

  explicit DraftTree(std::int64_t token);

  [[nodiscard]] std::size_t size() const { return tokens.size(); }  ///< rows
  /// Appends a guess after a row; returns its row.
  std::int32_t add(std::int32_t parent, std::int64_t token, double log_probability_after_parent);

  /// The tree of the `rows` likeliest rows; of equals the earlier one. Whole where it has no more.
  [[nodiscard]] DraftTree likeliest(std::int64_t rows) const;
};

}  // namespace slimpack
