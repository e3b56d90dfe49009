#include "slimpack/data/documents.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <string>

#include "tests/data/index_by_hand.h"
#include "tests/support/expect_error.h"
#include "tests/support/numbered_tokens.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using Masks = std::vector<std::string>;  // by document

/// The index of a mask with a sequence for each document.
IndexByHand index_of(const Masks& masks) {
  IndexByHand index;
  index.dtype = 1;  // uint8
  index.sequence_count = masks.size();
  index.document_entries = masks.size() + 1;
  std::int64_t bytes = 0;
  for (std::size_t d = 0; d < masks.size(); ++d) {
    index.lengths.push_back(static_cast<std::int32_t>(masks[d].size()));
    index.offsets.push_back(bytes);
    index.documents.push_back(static_cast<std::int64_t>(d));
    bytes += static_cast<std::int64_t>(masks[d].size());
  }
  index.documents.push_back(static_cast<std::int64_t>(masks.size()));
  return index;
}

void write_mask(const std::filesystem::path& prefix, const Masks& masks) {
  std::string bin;
  for (const std::string& mask : masks) bin += mask;
  put_file(prefix.string() + ".mask.idx", index_of(masks).bytes());
  put_file(prefix.string() + ".mask.bin", bin);
}

/// Documents of 5, 0 and 3 tokens.
class Masked : public testing::Test {
 protected:
  Masked() { write_numbered_tokens(prefix(), {5, 0, 3}); }
  [[nodiscard]] std::filesystem::path prefix() const { return folder_ / "set"; }
  [[nodiscard]] Documents open() const { return Documents::open(prefix()); }

  TempFolder folder_;
};

const Masks kMasks{{"\1\0\1\1\0", 5}, {}, {"\0\0\1", 3}};

TEST_F(Masked, WithoutAMaskEveryTokenBehindAnotherOneIsATarget) {
  const Documents documents = open();
  EXPECT_EQ(documents.mask(), nullptr);
  EXPECT_EQ(documents.targets({0, Tokens(0), Tokens(5)}), (TargetMask{0, 1, 1, 1, 1}));
  EXPECT_EQ(documents.targets({0, Tokens(2), Tokens(1)}), TargetMask{0});
  EXPECT_EQ(target_statistics(documents).targets, 6);  // 4 + 0 + 2
  EXPECT_EQ(target_statistics(documents).behind_others, 6);
}

TEST_F(Masked, TheMaskSaysWhichTokensAreTargetsButNeverTheFirst) {
  write_mask(prefix(), kMasks);
  const Documents documents = open();
  const SequenceTokens first = documents.read({0, Tokens(0), Tokens(5)});
  EXPECT_EQ(first.tokens, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(first.targets, (TargetMask{0, 0, 1, 1, 0}));
  const TargetStatistics statistics = target_statistics(documents);
  EXPECT_EQ(statistics.targets, 3);  // 2 + 0 + 1
  EXPECT_EQ(statistics.behind_others, 6);
  EXPECT_EQ(statistics.documents_without, 1);
  EXPECT_EQ(statistics.first_without, 1);
}

RC_GTEST_PROP(Documents, APartOfADocumentHasItsPartOfTheMask, ()) {
  const auto lengths =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int32_t>>(rc::gen::inRange(0, 40)));
  Masks masks;
  for (const std::int32_t length : lengths)
    masks.push_back(*rc::gen::container<std::string>(static_cast<std::size_t>(length),
                                                     rc::gen::element('\0', '\1')));
  const TempFolder folder;
  write_numbered_tokens(folder / "set", lengths);
  write_mask(folder / "set", masks);
  const Documents documents = Documents::open(folder / "set");
  const SequenceRule rule{Tokens(*rc::gen::inRange(1, 20)),
                          *rc::gen::elementOf(kLongDocumentsKinds)};
  std::int64_t first_token = 0;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const Tokens length(lengths[d]);
    for (std::int64_t k = 0; k < sequence_count(length, rule); ++k) {
      const DocumentSequence sequence = sequence_of(d, length, k, rule);
      const SequenceTokens read = documents.read(sequence);
      RC_ASSERT(std::ssize(read.tokens) == sequence.length.count());
      for (std::size_t i = 0; i < read.tokens.size(); ++i) {
        const auto at = static_cast<std::size_t>(sequence.begin.count()) + i;
        RC_ASSERT(read.tokens[i] == first_token + static_cast<std::int64_t>(at));
        RC_ASSERT(read.targets[i] == (i == 0 ? 0 : masks[d][at]));
      }
    }
    first_token += length.count();
  }
}

TEST_F(Masked, OneFileOfAMaskAloneIsRefused) {
  write_mask(prefix(), kMasks);
  std::filesystem::remove(prefix().string() + ".mask.bin");
  expect_invalid_input([&] { (void)open(); }, {"set.mask.bin", "No such file"});
  std::filesystem::remove(prefix().string() + ".mask.idx");
  EXPECT_EQ(open().mask(), nullptr);
  std::filesystem::create_symlink("nowhere", prefix().string() + ".mask.idx");
  expect_invalid_input([&] { (void)open(); }, {"set.mask.bin", "No such file"});
}

TEST_F(Masked, AMaskOfAnotherTypeIsRefused) {
  write_mask(prefix(), kMasks);
  IndexByHand index = index_of(kMasks);
  index.dtype = 2;  // int8
  put_file(prefix().string() + ".mask.idx", index.bytes());
  expect_invalid_input([&] { (void)open(); },
                       {"set.mask.idx", "dtype code 2", "code 1, uint8", "remove it"});
}

TEST_F(Masked, AMaskOfOtherDocumentsIsRefused) {
  write_mask(prefix(), {kMasks[0], kMasks[2]});
  expect_invalid_input([&] { (void)open(); }, {"set.mask.idx", "2 documents", "set', which are 3",
                                               "write the mask again"});
  write_mask(prefix(), {kMasks[0], "\1", kMasks[2]});
  expect_invalid_input([&] { (void)open(); }, {"set.mask.idx", "document 1 has 1 bytes",
                                               "where the document has 0", "write the mask again"});
  write_mask(prefix(), {kMasks[0], "", "\1\1"});
  expect_invalid_input([&] { (void)open(); }, {"document 2 has 2 bytes", "the document has 3"});
}

TEST_F(Masked, AByteThatIsNeitherOfTheTwoIsRefusedWhereItIsRead) {
  write_mask(prefix(), {{"\1\0\1\1\0", 5}, "", "\1\2\1"});
  const Documents documents = open();
  EXPECT_EQ(count_of(documents.targets({0, Tokens(0), Tokens(5)})), 2);
  expect_invalid_input(
      [&] {
        (void)documents.read({2, Tokens(1), Tokens(2)});
      },
      {"set.mask'", "document 2 holds 2 at position 1", "1 for a target"});
  expect_invalid_input(
      [&] { documents.require_mask_bytes(token_range(*documents.mask(), [](Tokens) {})); },
      {"set.mask'", "document 2 holds 2 at position 1"});
}

}  // namespace
}  // namespace slimpack
