#include "slimpack/base/nearest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

namespace slimpack {
namespace {

/// Plain recursion over the definition; fine for a handful of characters.
std::size_t naive_distance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::size_t replaced =
      naive_distance(a.substr(1), b.substr(1)) + (a.front() == b.front() ? 0 : 1);
  return std::min(
      {replaced, naive_distance(a.substr(1), b) + 1, naive_distance(a, b.substr(1)) + 1});
}

TEST(EditDistance, KnownExample) {
  // kitten → sitten → sittin → sitting
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", "abc"), 0U);
}

RC_GTEST_PROP(EditDistance, AgreesWithPlainRecursion, ()) {
  const auto word = rc::gen::resize(5, rc::gen::container<std::string>(rc::gen::inRange('a', 'd')));
  const std::string a = *word;
  const std::string b = *word;
  RC_ASSERT(edit_distance(a, b) == naive_distance(a, b));
}

constexpr std::array<std::string_view, 3> kKnown{"steps", "seed", "learning_rate"};

TEST(Nearest, FindsMisspelledWords) {
  EXPECT_EQ(nearest("step", kKnown), "steps");
  EXPECT_EQ(nearest("sed", kKnown), "seed");
  EXPECT_EQ(nearest("learning-rate", kKnown), "learning_rate");
}

TEST(Nearest, OffersNothingForAWordUnlikeAll) {
  EXPECT_EQ(nearest("zzzzz", kKnown), "");
  EXPECT_EQ(nearest("", kKnown), "");
  constexpr std::array<std::string_view, 1> kShort{"pp"};
  EXPECT_EQ(nearest("xy", kShort), "");  // every character replaced
  EXPECT_EQ(nearest(std::string(1 << 20, 's'), kKnown), "");
}

TEST(Suggestion, NamesTheNearestOrAllKnownWords) {
  EXPECT_EQ(suggestion("stps", kKnown), "did you mean \"steps\"?");
  EXPECT_EQ(suggestion("zzzzz", kKnown), "known are steps, seed, learning_rate");
}

}  // namespace
}  // namespace slimpack
