#include "slimpack/plan/slice.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace slimpack {
namespace {

TEST(Slice, HasTheTokensBeforeItAsItsPrefix) {
  const Slice slice{SequenceId(0), Tokens(5), Tokens(8)};
  EXPECT_EQ(slice.prefix(), Tokens(5));
  EXPECT_EQ(slice.length(), Tokens(3));
}

RC_GTEST_PROP(Slice, CountsThePairsThatItsQueriesSee, ()) {
  const int begin = *rc::gen::inRange(0, 200);
  const int length = *rc::gen::inRange(1, 200);
  double pairs = 0;  // query t sees the keys 0 … t
  for (int t = begin; t < begin + length; ++t) pairs += t + 1;
  RC_ASSERT((Slice{SequenceId(0), Tokens(begin), Tokens(begin + length)}.causal_pairs()) == pairs);
}

TEST(SequenceLengths, AddUp) {
  EXPECT_EQ(total_tokens({}), Tokens(0));
  EXPECT_EQ(total_tokens({Tokens(3), Tokens(4)}), Tokens(7));
}

TEST(SequenceLengths, AreIndexedByIdsFromZero) {
  EXPECT_TRUE(all_sequences({}).empty());
  EXPECT_EQ(all_sequences({Tokens(3), Tokens(4)}),
            (std::vector<SequenceId>{SequenceId(0), SequenceId(1)}));
}

}  // namespace
}  // namespace slimpack
