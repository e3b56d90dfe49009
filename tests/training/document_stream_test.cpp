#include "slimpack/training/document_stream.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/job/configured_model.h"
#include "tests/training/small_run.h"

namespace slimpack {
namespace {

DocumentStream stream_of(const RunConfig& config, const SamplerCursor& from) {
  return {DocumentReader({config.data.prefix}, trained_model(config), config.model.config,
                         config.train.loss),
          config.data, from};
}

TEST(DocumentStream, ReturnsNextWhatItWasPeekedAt) {
  const testing::SmallRun small;
  const RunConfig config = small.config({"data.step_tokens=1"});  // a document each
  DocumentStream peeking = stream_of(config, {.seed = 1});
  DocumentStream drawing = stream_of(config, {.seed = 1});
  const StepBatch first = drawing.next();
  EXPECT_EQ(peeking.peek().sequences, first.sequences);
  EXPECT_EQ(peeking.peek().sequences, first.sequences);
  EXPECT_EQ(peeking.next().cursor, first.cursor);
  EXPECT_EQ(peeking.next().sequences, drawing.next().sequences);
}

TEST(DocumentStream, GoesOnWhereABatchSaysThatItEnded) {
  const testing::SmallRun small;
  const RunConfig config = small.config({"data.step_tokens=1"});
  DocumentStream whole = stream_of(config, {.seed = 1});
  const SamplerCursor after_one = whole.next().cursor;
  EXPECT_EQ(stream_of(config, after_one).next().sequences, whole.next().sequences);
}

TEST(DocumentStream, WeighsTargetsByTheirDocumentWhereTheLossIsTheirMean) {
  const testing::SmallRun small;
  StepBatch of_tokens = stream_of(small.config({}), {.seed = 1}).next();
  StepBatch of_documents = stream_of(small.config({"train.loss=document"}), {.seed = 1}).next();
  ASSERT_EQ(of_documents.sequences, of_tokens.sequences);
  EXPECT_EQ(of_documents.tokens.targets, of_tokens.tokens.targets);
  // Without a mask every token but the first is a target, of weight 1 or of 1 ÷ (length − 1).
  EXPECT_EQ(of_tokens.tokens.weight, static_cast<double>(of_tokens.tokens.targets));
  const auto with_target = std::ranges::count_if(
      of_documents.sequences, [](const auto& s) { return s.length > Tokens(1); });
  EXPECT_EQ(of_documents.tokens.weight, static_cast<double>(with_target));
  EXPECT_EQ(of_tokens.target_share(), 1);
}

TEST(ChecksumOfDocuments, DependsOnDocumentsTheirOrderTheirRangesAndTheirTargets) {
  using Sequences = std::vector<DocumentSequence>;
  const Sequences two{{0, Tokens(0), Tokens(9)}, {1, Tokens(0), Tokens(9)}};
  EXPECT_EQ(checksum_of_documents(two, 16), checksum_of_documents(Sequences(two), 16));
  for (const Sequences& other :
       {Sequences{two[1], two[0]}, Sequences{two[0]}, Sequences{two[0], {1, Tokens(1), Tokens(9)}},
        Sequences{two[0], {1, Tokens(0), Tokens(8)}}})
    EXPECT_NE(checksum_of_documents(other, 16), checksum_of_documents(two, 16));
  EXPECT_NE(checksum_of_documents(two, 15), checksum_of_documents(two, 16));
}

}  // namespace
}  // namespace slimpack
