// Key/value cache: the keys and values of one sequence in all layers. It grows with the sequence
// and can be cut back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/decode/row_attention.h"
#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

class KeyValueCache {
 public:
  /// Empty, for the layers of that model.
  KeyValueCache(const Decoder& shape, Dtype dtype, at::Device device);

  [[nodiscard]] std::int64_t size() const { return size_; }  ///< tokens

  /// Makes room for `tokens` in all. Where the room is too small, rows are copied to a room that is
  /// at least a half larger, so that growing token by token costs little.
  void reserve(std::int64_t tokens);

  /// Keys and values of tokens [0, end) in a layer, [tokens, G, D]: views, whose rows beyond size()
  /// a layer writes. REQUIRES: reserve(end).
  [[nodiscard]] KeysValues rows(std::size_t layer, std::int64_t end) const;

  /// Keys and values of a layer by head, in plain memory. REQUIRES: a CPU; Input is the compute
  /// type.
  template <class Input>
  [[nodiscard]] CachedHeads<Input> heads(std::size_t layer) const;

  /// Counts rows that all layers have written.
  void append(std::int64_t rows) { size_ += rows; }

  /// Forgets all tokens from `size` on.
  void truncate(std::int64_t size) { size_ = std::min(size_, size); }

  /// Keeps the named ones of the rows from `begin` on, in that order, and forgets the others.
  /// REQUIRES: `rows` ascend, counted from `begin`.
  void keep(std::int64_t begin, std::span<const std::int32_t> rows);

  [[nodiscard]] Bytes bytes() const;

 private:
  std::vector<at::Tensor> k_GLD_;
  std::vector<at::Tensor> v_GLD_;
  std::vector<std::int64_t> windows_;  ///< by layer
  std::int64_t size_ = 0;
  std::int64_t capacity_ = 0;
};

}  // namespace slimpack
