#include "slimpack/data/sequences.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "tests/support/expect_error.h"

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
  for (const LongDocumentsKind kind : kLongDocumentsKinds)
    EXPECT_EQ(sequence_count(Tokens(0), {Tokens(5), kind}), 0);
}

TEST(Sequences, KeepTheBeginningAloneWhenTruncated) {
  const SequenceRule rule{Tokens(5), LongDocumentsKind::kTruncate};
  ASSERT_EQ(sequence_count(Tokens(11), rule), 1);
  EXPECT_EQ(sequence_of(2, Tokens(11), 0, rule), (DocumentSequence{2, Tokens(0), Tokens(5)}));
}

TEST(Sequences, AreNoneOfALongDocumentThatIsDropped) {
  const SequenceRule rule{Tokens(5), LongDocumentsKind::kDrop};
  EXPECT_EQ(sequence_count(Tokens(6), rule), 0);
  ASSERT_EQ(sequence_count(Tokens(5), rule), 1);
  EXPECT_EQ(sequence_of(2, Tokens(5), 0, rule), (DocumentSequence{2, Tokens(0), Tokens(5)}));
}

TEST(Sequences, AreAskedForWhereDocumentsHaveNone) {
  const SequenceRule drop{Tokens(5), LongDocumentsKind::kDrop};
  const std::vector<Tokens> documents{Tokens(0), Tokens(6)};
  EXPECT_NO_THROW(require_sequences(documents, {Tokens(5)}, "x"));
  EXPECT_NO_THROW(require_sequences(documents, {Tokens(6), LongDocumentsKind::kDrop}, "x"));
  expect_invalid_input([&] { require_sequences(documents, drop, "corpus"); },
                       {"corpus has 2 documents", "longer than the context of 5", "dropped",
                        "raise the context, or split or truncate them"});
  expect_invalid_input([&] { require_sequences({{Tokens(0)}}, drop, "corpus"); },
                       {"corpus has 1 documents and none with a token"});
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
  // Dropped: none, without 7 + 11 tokens.
  EXPECT_EQ(long_documents(documents, {Tokens(5)}), (LongDocuments{2, 5, Tokens(0)}));
  EXPECT_EQ(long_documents(documents, {Tokens(5), LongDocumentsKind::kTruncate}),
            (LongDocuments{2, 2, Tokens(8)}));
  EXPECT_EQ(long_documents(documents, {Tokens(5), LongDocumentsKind::kDrop}),
            (LongDocuments{2, 0, Tokens(18)}));
}

TEST(Sequences, OfTheFirstDocumentsEndBeforeTheOneThatIsTooMuch) {
  const std::vector<Tokens> documents{Tokens(7), Tokens(0), Tokens(4), Tokens(1)};
  // 5 + 2 of the first document and 4 of the third are 11. The last document would make them 12.
  const std::vector<DocumentSequence> first{
      {0, Tokens(0), Tokens(5)}, {0, Tokens(5), Tokens(2)}, {2, Tokens(0), Tokens(4)}};
  EXPECT_EQ(first_sequences(documents, {Tokens(5)}, Tokens(11)), first);
  EXPECT_TRUE(first_sequences(documents, {Tokens(5)}, Tokens(4)).empty());
}

TEST(Sequences, HaveRangesOfLengthsByPowersOfFour) {
  for (const auto& [length, from, below] : std::vector<std::array<std::int64_t, 3>>{
           {1, 0, 1024},
           {1023, 0, 1024},
           {1024, 1024, 4096},
           {4096, 4096, 16'384},
           {1 << 20, 1 << 20, 4 << 20},
           {INT32_MAX, std::int64_t{1} << 30, std::int64_t{1} << 32}})
    EXPECT_EQ(range_of(Tokens(length)), (LengthRange{Tokens(from), Tokens(below)}));
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
