// Attention of a few rows against all keys that a sequence has.
//
// Query heads that share a key head, and rows, are laid side by side: sixteen queries take each key
// at once. Long sequences are divided, so that all threads have work, and their parts merged by
// their log-sum-exp (Flash-Decoding).
#pragma once

#include <cstdint>
#include <span>
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
  std::int64_t window = 0;  ///< LayerShape::window
};

/// The keys that rows see among those that came with them, and how far after the keys before these
/// they stand. Without a window all rows see every key before their own ones.
class OwnKeys {
 public:
  /// The rows are those of a sequence, each with its key: row i sees keys 0 to i.
  explicit OwnKeys(std::int64_t rows) : rows_(rows), keys_(rows), most_depth_(rows - 1) {}
  /// The keys are a tree, in an order in which parents come first; a parent of −1 is the last key
  /// before. The rows are the last of them, and a row sees its key and that key's ancestors.
  /// REQUIRES: parents[i] < i.
  OwnKeys(std::span<const std::int32_t> parents, std::int64_t rows);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] bool is_tree() const { return !ancestors_.empty(); }
  /// Key −1 is the last one before the own ones. `window` as in CachedHeads.
  [[nodiscard]] bool sees(std::int64_t row, std::int64_t key, std::int64_t window) const {
    if (key >= 0 &&
        !(is_tree() ? ancestors_[static_cast<std::size_t>(row * keys_ + key)] : key <= row))
      return false;
    return window == 0 || depth(keys_ - rows_ + row) - depth(key) < window;
  }
  /// The place of a key after those before the own ones, which have negative places.
  [[nodiscard]] std::int64_t depth(std::int64_t key) const {
    return is_tree() && key >= 0 ? depths_[static_cast<std::size_t>(key)] : key;
  }
  /// The smallest and the largest depth of a row.
  [[nodiscard]] std::int64_t least_depth() const { return least_depth_; }
  [[nodiscard]] std::int64_t most_depth() const { return most_depth_; }

 private:
  std::int64_t rows_, keys_;
  std::int64_t least_depth_ = 0, most_depth_;
  std::vector<bool> ancestors_;       ///< [rows, keys]
  std::vector<std::int64_t> depths_;  ///< by key of a tree
};

/// q [T, N·D] after rope; their own keys and values are in the cache from `before` on.
/// out [T, N·D].
template <class Input>
void attend_rows(RowsView<const Sum<Input>> q, std::int64_t query_heads,
                 const CachedHeads<Input>& cached, std::int64_t before, const OwnKeys& own,
                 RowsView<Input> out);

}  // namespace slimpack
