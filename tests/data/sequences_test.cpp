#include "slimpack/data/sequences.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace slimpack {
namespace {

TEST(Sequences, SplitALongDocumentAtTheContext) {
  // 5 + 5 + 1 = 11 tokens.
  const SequenceRule rule{Tokens(5)};
  ASSERT_EQ(sequence_count(Tokens(11), rule), 3);
  EXPECT_EQ(sequence_of(7, Tokens(11), 0, rule), (DocumentSequence{7, Tokens(0), Tokens(5)}));
  EXPECT_EQ(sequence_of(7, Tokens(11), 1, rule), (DocumentSequence{7, Tokens(5), Tokens(5)}));
  EXPECT_EQ(sequence_of(7, Tokens(11), 2, rule), (DocumentSequence{7, Tokens(10), Tokens(1)}));
}

TEST(Sequences, LeaveADocumentWholeThatFits) {
  EXPECT_EQ(sequence_count(Tokens(5), {Tokens(5)}), 1);
  EXPECT_EQ(sequence_of(0, Tokens(5), 0, {Tokens(5)}), (DocumentSequence{0, Tokens(0), Tokens(5)}));
}

TEST(Sequences, AreNoneOfAnEmptyDocument) {
  EXPECT_EQ(sequence_count(Tokens(0), {Tokens(5)}), 0);
  EXPECT_EQ(sequence_count(Tokens(0), {Tokens(5), false}), 0);
}

TEST(Sequences, KeepTheBeginningAloneWhenTruncated) {
  const SequenceRule rule{Tokens(5), false};
  ASSERT_EQ(sequence_count(Tokens(11), rule), 1);
  EXPECT_EQ(sequence_of(2, Tokens(11), 0, rule), (DocumentSequence{2, Tokens(0), Tokens(5)}));
}

TEST(Sequences, CountTheDocumentsThatTheyComeFrom) {
  const std::vector<DocumentSequence> drawn{
      {4, Tokens(5), Tokens(5)}, {1, Tokens(0), Tokens(3)}, {4, Tokens(0), Tokens(5)}};
  EXPECT_EQ(document_count(drawn), 2);
  EXPECT_EQ(document_count({}), 0);
}

TEST(Sequences, CountWhatBecomesOfLongDocuments) {
  const std::vector<Tokens> documents{Tokens(3), Tokens(7), Tokens(5), Tokens(11)};
  // Split: 7 = 5 + 2 and 11 = 5 + 5 + 1, five sequences. Truncated: two, without 2 and 6 tokens.
  EXPECT_EQ(long_documents(documents, {Tokens(5)}), (LongDocuments{2, 5, Tokens(0)}));
  EXPECT_EQ(long_documents(documents, {Tokens(5), false}), (LongDocuments{2, 2, Tokens(8)}));
}

TEST(Sequences, OfTheFirstDocumentsEndBeforeTheOneThatIsTooMuch) {
  const std::vector<Tokens> documents{Tokens(7), Tokens(0), Tokens(4), Tokens(1)};
  // 5 + 2 of the first document and 4 of the third are 11. The last document would make them 12.
  const std::vector<DocumentSequence> first{
      {0, Tokens(0), Tokens(5)}, {0, Tokens(5), Tokens(2)}, {2, Tokens(0), Tokens(4)}};
  EXPECT_EQ(first_sequences(documents, {Tokens(5)}, Tokens(11)), first);
  EXPECT_TRUE(first_sequences(documents, {Tokens(5)}, Tokens(4)).empty());
}

TEST(Sequences, FillBatchesInTheirOrder) {
  const std::vector<DocumentSequence> sequences{{0, Tokens(0), Tokens(3)},
                                                {1, Tokens(0), Tokens(4)},
                                                {2, Tokens(0), Tokens(9)},
                                                {3, Tokens(0), Tokens(1)}};
  // 3 + 4 fill the first batch. The third sequence alone is more than 7.
  EXPECT_EQ(in_batches(sequences, Tokens(7)),
            (std::vector<std::vector<DocumentSequence>>{
                {sequences[0], sequences[1]}, {sequences[2]}, {sequences[3]}}));
  EXPECT_TRUE(in_batches({}, Tokens(7)).empty());
}

RC_GTEST_PROP(Sequences, SplitWithoutLosingAToken, ()) {
  const auto counts = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(0, 200));
  const SequenceRule rule{Tokens(*rc::gen::inRange(1, 60))};
  std::vector<Tokens> documents;
  for (const std::int64_t count : counts) documents.emplace_back(count);
  const std::vector<Tokens> lengths = sequence_lengths(documents, rule);
  const auto sum = [](const auto& all) {
    return std::accumulate(all.begin(), all.end(), Tokens(0));
  };
  RC_ASSERT(sum(lengths) == sum(documents));
  for (const Tokens length : lengths) RC_ASSERT(length > Tokens(0) && length <= rule.context);
}

}  // namespace
}  // namespace slimpack
