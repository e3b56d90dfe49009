#include "slimpack/data/token_range.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <optional>

#include "tests/data/index_by_hand.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using Documents = std::vector<std::vector<std::int64_t>>;

struct StoredType {
  std::uint8_t code;
  int bytes;
  std::int64_t smallest, largest;
};
constexpr std::array<StoredType, 6> kTypes{{{1, 1, 0, 255},
                                            {2, 1, -128, 127},
                                            {3, 2, -32768, 32767},
                                            {4, 4, INT32_MIN, INT32_MAX},
                                            {5, 8, INT64_MIN, INT64_MAX},
                                            {8, 2, 0, 65535}}};

/// Documents in so many sequences each, with a gap of `gap` bytes before every sequence.
void write(const std::filesystem::path& prefix, const StoredType& type, const Documents& documents,
           std::size_t sequences, std::int64_t gap) {
  IndexByHand index;
  index.dtype = type.code;
  std::string bin;
  index.documents.push_back(0);
  for (const auto& document : documents) {
    const std::size_t part = document.size() / sequences;
    for (std::size_t s = 0; s < sequences; ++s) {
      const std::size_t end = s + 1 == sequences ? document.size() : (s + 1) * part;
      bin += std::string(static_cast<std::size_t>(gap), '\x7f');  // no token
      index.offsets.push_back(static_cast<std::int64_t>(bin.size()));
      index.lengths.push_back(static_cast<std::int32_t>(end - s * part));
      for (std::size_t i = s * part; i < end; ++i)
        bin += little_endian(static_cast<std::uint64_t>(document[i]), type.bytes);
    }
    index.documents.push_back(static_cast<std::int64_t>(index.lengths.size()));
  }
  index.sequence_count = index.lengths.size();
  index.document_entries = index.documents.size();
  put_file(idx_path(prefix), index.bytes());
  put_file(bin_path(prefix), bin);
}

TokenRange range_of(const std::filesystem::path& prefix) {
  return token_range(IndexedDataset::open(prefix), [](Tokens) {});
}

/// Token by token.
TokenRange naive_range(const Documents& documents) {
  TokenRange range;
  for (std::size_t d = 0; d < documents.size(); ++d)
    for (std::size_t i = 0; i < documents[d].size(); ++i) {
      const TokenPlace here{documents[d][i], d, static_cast<std::int64_t>(i)};
      if (!range.smallest || here.token < range.smallest->token) range.smallest = here;
      if (!range.largest || here.token > range.largest->token) range.largest = here;
    }
  return range;
}

RC_GTEST_PROP(TokenRange, IsThatOfANaiveRecountInEveryStoredType, ()) {
  const TempFolder folder;
  const StoredType type = *rc::gen::elementOf(kTypes);
  // Few values, so that extremes repeat; both ends of the type among them.
  const auto token = rc::gen::oneOf(rc::gen::inRange<std::int64_t>(type.smallest / 64, 64),
                                    rc::gen::element(type.smallest, type.largest));
  const auto documents =
      *rc::gen::container<Documents>(rc::gen::container<std::vector<std::int64_t>>(token));
  const auto sequences = *rc::gen::inRange<std::size_t>(1, 4);
  write(folder / "set", type, documents, sequences, *rc::gen::inRange<std::int64_t>(0, 3));
  RC_ASSERT(range_of(folder / "set") == naive_range(documents));
}

TEST(TokenRange, IsAbsentWithoutTokens) {
  const TempFolder folder;
  write(folder / "set", kTypes[3], {{}, {}}, 1, 0);
  EXPECT_EQ(range_of(folder / "set"), TokenRange());
}

TEST(TokenRange, TellsOfEveryTokenThatItReads) {
  const TempFolder folder;
  // Six million tokens, more than are told of at once.
  const Documents documents(6, std::vector<std::int64_t>(1'000'000, 3));
  write(folder / "set", kTypes[0], documents, 1, 0);
  std::vector<std::int64_t> told;
  static_cast<void>(token_range(IndexedDataset::open(folder / "set"),
                                [&](Tokens more) { told.push_back(more.count()); }));
  // 2²² = 4.2 million are done within the fifth document.
  EXPECT_EQ(told, (std::vector<std::int64_t>{5'000'000, 1'000'000}));
}

class NotedTokenRange : public testing::Test {
 protected:
  NotedTokenRange() { rewrite({{5, 9}, {2}}); }
  void rewrite(const Documents& documents) const { write(prefix_, kTypes[3], documents, 1, 0); }
  [[nodiscard]] DatasetVersion version() const {
    return version_of(IndexedDataset::open(prefix_), prefix_);
  }
  void set_time(std::int64_t seconds) const {
    std::filesystem::last_write_time(
        bin_path(prefix_), std::filesystem::file_time_type(std::chrono::seconds(seconds)));
  }

  TempFolder folder_;
  std::filesystem::path prefix_ = folder_ / "set";
  std::filesystem::path file_ = checked_path(prefix_);
};

TEST_F(NotedTokenRange, ComesBackForTheSameVersionOnly) {
  set_time(1);
  const TokenRange range{TokenPlace{-2, 1, 0}, TokenPlace{9, 0, 1}};
  put_file(file_, token_range_to_json(range, version()));
  EXPECT_EQ(noted_token_range(file_, version()), range);
  set_time(2);  // written again: other tokens of the same lengths
  EXPECT_EQ(noted_token_range(file_, version()), std::nullopt);
  rewrite({{5}, {9, 2}});  // as many bytes, other documents
  set_time(1);
  EXPECT_EQ(noted_token_range(file_, version()), std::nullopt);
  rewrite({{5, 9}, {2}});
  set_time(1);
  EXPECT_EQ(noted_token_range(file_, version()), range);
}

TEST_F(NotedTokenRange, OfNoTokensComesBackAsThat) {
  put_file(file_, token_range_to_json({}, version()));
  EXPECT_EQ(noted_token_range(file_, version()), TokenRange());
}

TEST_F(NotedTokenRange, ThatIsDamagedIsNone) {
  EXPECT_EQ(noted_token_range(file_, version()), std::nullopt);
  const std::string text = token_range_to_json(range_of(prefix_), version());
  for (const std::string& bad : {std::string(), std::string("[]"), text.substr(0, text.size() / 2),
                                 std::string("{\"format\": \"other\"}")}) {
    put_file(file_, bad);
    EXPECT_EQ(noted_token_range(file_, version()), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace slimpack
