// N-gram draft: what followed the last tokens where they stood before. It costs nothing, and text
// that repeats itself, such as code, follows it far (prompt lookup decoding). It guesses alone, or
// one tree together with an EAGLE-3 head.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "slimpack/packflow/speculate/draft.h"

namespace slimpack {

class NgramDraft final : public Draft {
 public:
  [[nodiscard]] std::vector<std::int64_t> feature_layers() const override { return {}; }
  void go_back(std::int64_t size) override { tokens_.resize(static_cast<std::size_t>(size)); }
  void learn(std::span<const std::int64_t> tokens, const at::Tensor& features) override;

  /// Up to width() continuations of the latest places where the longest run of last tokens stood
  /// before. If the run stood at n places and a share s of them goes on with a guess, the guess has
  /// the probability s · n / (n + 1). Cost: O(tokens).
  /// REQUIRES: the tree has row 0 alone.
  void guess(DraftTree& tree, TreeRule& rule) override;

 private:
  std::vector<std::int64_t> tokens_;
};

/// An EAGLE-3 head and the n-grams of the text guess one tree. N-grams guess first, for they cost
/// nothing. The head runs after their guesses, too, and a guess of both is one row.
class JointDraft final : public Draft {
 public:
  explicit JointDraft(std::unique_ptr<Draft> head) : head_(std::move(head)) {}

  [[nodiscard]] std::vector<std::int64_t> feature_layers() const override {
    return head_->feature_layers();
  }
  void go_back(std::int64_t size) override;
  void learn(std::span<const std::int64_t> tokens, const at::Tensor& features) override;
  /// The rule decides on the head's levels alone. REQUIRES: the tree has row 0 alone.
  void guess(DraftTree& tree, TreeRule& rule) override;

 private:
  NgramDraft ngrams_;
  std::unique_ptr<Draft> head_;
};

}  // namespace slimpack
