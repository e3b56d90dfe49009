#include "slimpack/job/configured_sequences.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

const std::vector<Tokens> kDocuments{Tokens(10), Tokens(25), Tokens(4), Tokens(11)};

std::string text(std::int64_t context, LongDocumentsKind kind) {
  DataConfig data;
  data.context = Tokens(context);
  data.long_documents = kind;
  return long_documents_text(kDocuments, configured_sequences(data));
}

TEST(LongDocumentsText, SaysWhatBecomesOfThem) {
  // Longer than 10 are 25 = 10 + 10 + 5 and 11 = 10 + 1: five sequences, or 15 + 1 tokens dropped,
  // 32% of the 50 that there are.
  EXPECT_EQ(
      text(10, LongDocumentsKind::kSplit),
      "2 of 4 documents longer than the context, split into 5 sequences: no token is dropped");
  EXPECT_EQ(text(10, LongDocumentsKind::kTruncate),
            "2 of 4 documents longer than the context, truncated: 16 tokens dropped, 32.0%");
  // Left out whole: 25 + 11 tokens, 72%.
  EXPECT_EQ(text(10, LongDocumentsKind::kDrop),
            "2 of 4 documents longer than the context, left out: 36 tokens dropped, 72.0%");
  EXPECT_EQ(text(25, LongDocumentsKind::kSplit), "no document is longer than the context of 25");
}

}  // namespace
}  // namespace slimpack
