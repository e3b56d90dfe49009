// Attention of a few rows against all keys that a sequence has.
//
// Query heads that share a key head, and rows, are laid side by side: sixteen queries take each key
// at once. Long sequences are divided, so that all threads have work, and their parts merged by
// their log-sum-exp (Flash-Decoding).
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/packflow/decode/rows.h"

namespace slimpack {

/// Keys and values of one layer: [G, capacity, D] each.
template <class Input>
struct CachedHeads {
  Input* k = nullptr;
  Input* v = nullptr;
  std::int64_t heads = 0;
  std::int64_t capacity = 0;
  std::int64_t head_dim = 0;
};

/// Which of their own keys T rows see. All of them see every key before.
class OwnKeys {
 public:
  /// Row i sees keys 0 to i.
  explicit OwnKeys(std::int64_t rows) : rows_(rows) {}
  /// The rows are a tree, in an order in which parents come first: row i sees itself and its
  /// ancestors. A parent of −1 is the last key before. REQUIRES: parents[i] < i.
  explicit OwnKeys(const std::vector<std::int32_t>& parents);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] bool is_tree() const { return !ancestors_.empty(); }
  [[nodiscard]] bool sees(std::int64_t row, std::int64_t key) const {
    return is_tree() ? ancestors_[static_cast<std::size_t>(row * rows_ + key)] : key <= row;
  }

 private:
  std::int64_t rows_;
  std::vector<bool> ancestors_;  ///< [T, T]
};

/// q [T, N·D] after rope; the keys and values of the rows are in the cache at `before` and after.
/// out [T, N·D].
template <class Input>
void attend_rows(RowsView<const Sum<Input>> q, std::int64_t query_heads,
                 const CachedHeads<Input>& cached, std::int64_t before, const OwnKeys& own,
                 RowsView<Input> out);

}  // namespace slimpack
