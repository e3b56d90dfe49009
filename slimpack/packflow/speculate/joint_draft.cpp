#include "slimpack/packflow/speculate/joint_draft.h"

#include "slimpack/packflow/speculate/fixed_tree.h"

namespace slimpack {

void JointDraft::go_back(std::int64_t size) {
  ngrams_.go_back(size);
  head_->go_back(size);
}

void JointDraft::learn(std::span<const std::int64_t> tokens, const at::Tensor& features) {
  ngrams_.learn(tokens, features);
  head_->learn(tokens, features);
}

void JointDraft::guess(DraftTree& tree, TreeRule& rule) {
  constexpr std::int64_t kDepth = 16;
  FixedTree all({.depth = kDepth, .width = rule.width()});
  ngrams_.guess(tree, all);
  head_->guess(tree, rule);
}

}  // namespace slimpack
