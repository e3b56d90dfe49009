#include "slimpack/packflow/speculate/ngram_draft.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {
namespace {

/// Runs of tokens that are looked for, longest first.
constexpr std::size_t kLongestRun = 8;
/// A single token says too little of what follows.
constexpr std::size_t kShortestRun = 2;

/// Length of the run of last tokens that stands right before `end`, too.
std::size_t common_run(std::span<const std::int64_t> tokens, std::size_t end) {
  std::size_t run = 0;
  while (run < kLongestRun && run < end && tokens[end - 1 - run] == tokens[tokens.size() - 1 - run])
    ++run;
  return run;
}

/// The places that follow the longest run, latest first, at most `most` of them.
std::vector<std::size_t> continuations(std::span<const std::int64_t> tokens, std::size_t most) {
  std::vector<std::size_t> places;
  std::size_t longest = kShortestRun;
  for (std::size_t end = tokens.size() - 1; end > 0; --end) {
    const std::size_t run = common_run(tokens, end);
    if (run < longest || (run == longest && places.size() == most)) continue;
    if (run > longest) places.clear();
    longest = run;
    places.push_back(end);
  }
  return places;
}

}  // namespace

void NgramDraft::learn(std::span<const std::int64_t> tokens, const at::Tensor& /*features*/) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void NgramDraft::guess(DraftTree& tree, TreeRule& rule) {
  if (!rule.deeper(tree, 0)) return;
  std::vector<std::int64_t> text = tokens_;
  text.push_back(tree.tokens[0]);
  const auto places = continuations(text, static_cast<std::size_t>(rule.width()));
  /// The row that each place's continuation has come to.
  std::vector<std::int32_t> rows(places.size(), 0);
  for (std::int64_t depth = 0; depth == 0 || rule.deeper(tree, depth); ++depth) {
    std::map<std::pair<std::int32_t, std::int64_t>, int> votes;
    std::map<std::int32_t, int> voters;
    const auto next = [&](std::size_t place) {
      return places[place] + static_cast<std::size_t>(depth);
    };
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (next(i) >= text.size()) continue;
      ++votes[{rows[i], text[next(i)]}];
      ++voters[rows[i]];
    }
    if (votes.empty()) break;
    std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> row_of;
    for (const auto& [guess, count] : votes)
      row_of[guess] = tree.add(guess.first, guess.second,
                               std::log(count / (voters[guess.first] + 1.0)), Guesser::kNgrams);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (next(i) < text.size()) rows[i] = row_of[{rows[i], text[next(i)]}];
  }
}

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
