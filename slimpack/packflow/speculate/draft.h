// Drafts guess what follows, cheaper than the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {

/// Guesses tokens that follow one sequence.
class Draft {
 public:
  virtual ~Draft() = default;

  /// Layers of the model whose inputs learn() wants, ascending.
  [[nodiscard]] virtual std::vector<std::int64_t> feature_layers() const = 0;
  /// Forgets the sequence's tokens from `size` on. learn() goes on with token `size`, which is as
  /// it was unless size is 0. REQUIRES: it was told of more than `size` tokens, or size is 0.
  virtual void go_back(std::int64_t size) = 0;
  /// Learns the next tokens of the sequence, which the model has run, with their features [T, …].
  virtual void learn(std::span<const std::int64_t> tokens, const at::Tensor& features) = 0;
  /// Adds guesses to a tree whose row 0 follows all that it was told. Rows of another draft may be
  /// there: a guess that this one made joins its row.
  virtual void guess(DraftTree& tree, TreeRule& rule) = 0;
};

}  // namespace slimpack
