// NgramDraft against a search that looks at every place of the text.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/packflow/speculate/draft_tree.h"
#include "slimpack/packflow/speculate/ngram_draft.h"

namespace slimpack {
namespace {

using Text = std::vector<std::int64_t>;
/// From the tokens of a path to its probability.
using Paths = std::map<Text, double>;

bool ends_with_last(const Text& text, std::size_t end, std::size_t run) {
  if (end < run) return false;
  for (std::size_t i = 1; i <= run; ++i)
    if (text[end - i] != text[text.size() - i]) return false;
  return true;
}

/// The continuations of the latest `width` places where the longest run of 8 to 2 last tokens
/// stands, other than the end. A guess after a path has of those places that follow the path a
/// share s of n, and n/(n + 1) of that.
Paths naive(const Text& text, std::int64_t depth, std::int64_t width) {
  std::vector<std::size_t> places;
  for (std::size_t run = 8; run >= 2 && places.empty(); --run)
    for (std::size_t end = text.size() - 1; end > 0; --end)
      if (ends_with_last(text, end, run) && std::ssize(places) < width) places.push_back(end);
  Paths paths{{{}, 1.0}};
  for (std::int64_t d = 1; d <= depth; ++d)
    for (const std::size_t place : places) {
      if (place + static_cast<std::size_t>(d) > text.size()) continue;
      const auto from = text.begin() + static_cast<std::ptrdiff_t>(place);
      const Text path(from, from + d), before(from, from + d - 1);
      double same = 0, all = 0;
      for (const std::size_t other : places) {
        if (other + static_cast<std::size_t>(d) > text.size()) continue;
        const auto other_from = text.begin() + static_cast<std::ptrdiff_t>(other);
        if (Text(other_from, other_from + d - 1) != before) continue;
        all += 1;
        if (Text(other_from, other_from + d) == path) same += 1;
      }
      paths[path] = paths.at(before) * same / (all + 1);
    }
  return paths;
}

Paths paths_of(const DraftTree& tree) {
  Paths paths;
  std::vector<Text> path(tree.size());
  for (std::size_t row = 0; row < tree.size(); ++row) {
    if (row > 0) {
      path[row] = path[static_cast<std::size_t>(tree.parents[row])];
      path[row].push_back(tree.tokens[row]);
    }
    EXPECT_FALSE(paths.contains(path[row]));  // no path twice
    paths[path[row]] = std::exp(tree.log_probability[row]);
  }
  return paths;
}

DraftTree guessed(NgramDraft& draft, std::int64_t token, TreeRule& rule) {
  DraftTree tree(token);
  draft.guess(tree, rule);
  return tree;
}

TEST(NgramDraft, GuessesWhatFollowedTheLongestRunWhereItStoodBefore) {
  Rng rng(2);
  int deep = 0;
  for (int round = 0; round < 300; ++round) {
    Text text;
    const std::uint64_t tokens = 3 + rng.below(60), vocabulary = 2 + rng.below(4);
    for (std::uint64_t i = 0; i < tokens; ++i)
      text.push_back(static_cast<std::int64_t>(rng.below(vocabulary)));
    const TreeSize size{.depth = 1 + static_cast<std::int64_t>(rng.below(6)),
                        .width = 1 + static_cast<std::int64_t>(rng.below(4))};
    FixedTree rule(size);
    NgramDraft draft;
    const auto learned = std::span(text).first(text.size() - 1);
    const std::size_t half = learned.size() / 2;
    draft.learn(learned.first(half), {});
    // Tokens that it is told, forgets and is told again make no difference.
    draft.learn(learned.subspan(half), {});
    draft.go_back(static_cast<std::int64_t>(half));
    draft.learn(learned.subspan(half), {});
    const Paths got = paths_of(guessed(draft, text.back(), rule));
    const Paths expected = naive(text, size.depth, size.width);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [path, p] : expected) {
      ASSERT_TRUE(got.contains(path));
      EXPECT_NEAR(got.at(path), p, 1e-12);
      deep += path.size() > 2 ? 1 : 0;
    }
  }
  EXPECT_GT(deep, 100);
}

TEST(NgramDraft, GuessesNothingAfterTokensThatNeverStoodSo) {
  FixedTree rule({.depth = 3, .rows = 9, .width = 3});
  NgramDraft draft;
  EXPECT_EQ(guessed(draft, 1, rule).size(), 1U);
  draft.learn(Text{1, 2, 3, 4}, {});
  EXPECT_EQ(guessed(draft, 2, rule).size(), 1U);  // a single token is no run
}

}  // namespace
}  // namespace slimpack
