#include "slimpack/packflow/speculate/speculator.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

std::vector<std::int32_t> children_of(const DraftTree& tree, std::int32_t row) {
  std::vector<std::int32_t> children;
  for (std::size_t r = static_cast<std::size_t>(row) + 1; r < tree.size(); ++r)
    if (tree.parents[r] == row) children.push_back(static_cast<std::int32_t>(r));
  return children;
}

/// The next right row and −1, or −1 and the next token.
struct Follower {
  std::int32_t row = -1;
  std::int64_t token = -1;
};

Follower likeliest_follower(const DraftTree& tree, std::int32_t row, std::int64_t token) {
  for (const std::int32_t child : children_of(tree, row))
    if (tree.tokens[static_cast<std::size_t>(child)] == token) return {child, -1};
  return {-1, token};
}

Follower drawn_follower(const DraftTree& tree, std::int32_t row, std::vector<double> p,
                        TokenSampler& sampler) {
  double left = 1;
  for (const std::int32_t child : children_of(tree, row)) {
    double& of_guess = p[static_cast<std::size_t>(tree.tokens[static_cast<std::size_t>(child)])];
    if (left > 0 && sampler.happens(of_guess / left)) return {child, -1};
    left -= of_guess;
    of_guess = 0;
  }
  return {-1, sampler.draw(p)};
}

}  // namespace

Verdict verify(const DraftTree& tree, const at::Tensor& logits_TV, TokenSampler& sampler) {
  at::Tensor likeliest;
  if (sampler.greedy()) likeliest = at::argmax(logits_TV, 1);
  Verdict verdict;
  for (std::int32_t row = 0; row >= 0;) {
    verdict.path.push_back(row);
    const Follower next =
        sampler.greedy()
            ? likeliest_follower(tree, row, likeliest.const_data_ptr<std::int64_t>()[row])
            : drawn_follower(tree, row, sampler.probabilities(logits_TV[row]), sampler);
    row = next.row;
    verdict.next = next.token;
  }
  return verdict;
}

namespace {

/// Whether the deepest tree fits before the model's last position.
bool has_room(const LanguageModel& model, const CachedSequence& sequence) {
  constexpr std::int64_t kDeepest = TreeSize::kMostDepth + (TreeSize::kMostDepth + 1) / 2;
  return static_cast<std::int64_t>(sequence.tokens().size()) + 1 + kDeepest <=
         model.shape().max_positions.count();
}

}  // namespace

PrefillSettings Speculator::told(PrefillSettings settings, CachedSequence& sequence) {
  settings.feature_layers = draft_->feature_layers();
  settings.runs_again = true;
  settings.on_slice = [this, &sequence, first_slice = true](std::int64_t first,
                                                            const RowStates& states) mutable {
    if (first_slice) draft_->go_back(first);
    first_slice = false;
    draft_->learn(std::span(sequence.tokens()).subspan(static_cast<std::size_t>(first)),
                  states.features_TH);
  };
  return settings;
}

void Speculator::count(const DraftTree& tree, const std::vector<std::int32_t>& path) {
  ++figures_.passes;
  figures_.rows += static_cast<std::int64_t>(tree.size());
  for (std::size_t depth = 1; depth <= path.size(); ++depth) {
    const bool guessed = std::ranges::find(tree.parents, path[depth - 1]) != tree.parents.end();
    if (!guessed) break;
    if (figures_.guessed.size() < depth) {
      figures_.guessed.resize(depth, 0);
      figures_.accepted.resize(depth, 0);
    }
    ++figures_.guessed[depth - 1];
    if (depth < path.size()) ++figures_.accepted[depth - 1];
  }
}

DraftTree Speculator::guesses_after(std::int64_t token) {
  DraftTree tree(token);
  draft_->guess(tree, *rule_);
  return rule_->verified(tree);
}

std::vector<std::int64_t> Speculator::step(CachedSequence& sequence, std::int64_t token,
                                           TokenSampler& sampler) {
  Stopwatch watch;
  const bool guesses = has_room(*model_, sequence);
  const DraftTree tree = guesses ? guesses_after(token) : DraftTree(token);
  figures_.drafting += watch.lap();
  const std::int64_t before = sequence.cache().size();
  const std::vector<std::int64_t> layers = draft_->feature_layers();
  const RowStates states = model_->run(sequence.cache(), {tree.tokens, tree.parents, layers});
  const Verdict verdict = verify(tree, model_->logits(states.hidden_TH), sampler);
  sequence.cache().keep(before, verdict.path);
  figures_.verifying += watch.lap();
  std::vector<std::int64_t> right;
  for (const std::int32_t row : verdict.path)
    right.push_back(tree.tokens[static_cast<std::size_t>(row)]);
  sequence.append(right);
  draft_->learn(right, layers.empty()
                           ? at::Tensor()
                           : states.features_TH.index_select(0, at::tensor(verdict.path)));
  count(tree, verdict.path);
  if (guesses) rule_->learn(tree, verdict.path);
  figures_.drafting += watch.lap();
  right.erase(right.begin());
  right.push_back(verdict.next);
  return right;
}

}  // namespace slimpack
