// Joint draft: an EAGLE-3 head and the n-grams of the text guess one tree. N-grams guess first, for
// they cost nothing. The head runs after their guesses, too, and a guess of both is one row.
#pragma once

#include <memory>

#include "slimpack/packflow/speculate/ngram_draft.h"

namespace slimpack {

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
