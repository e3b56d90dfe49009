#include "slimpack/data/indexed_dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "tests/data/index_by_hand.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using Ids = std::vector<std::int32_t>;

/// Three documents over four sequences of int32:
///   document 0 = sequences 0 and 1 = {10, 11, 12} {13}
///   document 1 = none
///   document 2 = sequences 2 and 3 = {} {20, 21}
IndexByHand three_documents() {
  IndexByHand index;
  index.sequence_count = 4;
  index.document_entries = 4;
  index.lengths = {3, 1, 0, 2};
  index.offsets = {0, 12, 16, 16};
  index.documents = {0, 2, 2, 4};
  return index;
}

std::string three_documents_bin() {
  std::string bin;
  for (const int token : {10, 11, 12, 13, 20, 21})
    bin += little_endian(static_cast<std::uint64_t>(token), 4);
  return bin;
}

class IndexedDatasetFile : public testing::Test {
 protected:
  void write(const std::string& idx, const std::string& bin) {
    put_file(folder_ / "set.idx", idx);
    put_file(folder_ / "set.bin", bin);
  }
  [[nodiscard]] IndexedDataset open() const { return IndexedDataset::open(folder_ / "set"); }

  /// The index of three_documents() with one thing wrong is refused with `parts`.
  void expect_refused(const std::function<void(IndexByHand&)>& change,
                      std::initializer_list<std::string_view> parts) {
    IndexByHand index = three_documents();
    change(index);
    write(index.bytes(), three_documents_bin());
    expect_invalid_input([&] { (void)open(); }, parts);
  }

  TempFolder folder_;
};

TEST_F(IndexedDatasetFile, is_read_as_the_format_says) {
  // Header 34 + 4 · 4 lengths + 4 · 8 offsets + 4 · 8 document indices.
  ASSERT_EQ(three_documents().bytes().size(), 34u + 16 + 32 + 32);
  write(three_documents().bytes(), three_documents_bin());
  const IndexedDataset dataset = open();
  EXPECT_EQ(dataset.documents(), 3u);
  EXPECT_EQ(dataset.dtype(), TokenDtype::kInt32);
  EXPECT_EQ(dataset.lengths(), (std::vector{Tokens(4), Tokens(0), Tokens(2)}));
  EXPECT_EQ(dataset.tokens(0, Tokens(4)), (Ids{10, 11, 12, 13}));
  EXPECT_EQ(dataset.tokens(1, Tokens(0)), Ids{});
  EXPECT_EQ(dataset.tokens(2, Tokens(2)), (Ids{20, 21}));
}

TEST_F(IndexedDatasetFile, gives_the_first_tokens_of_a_document_across_its_sequences) {
  write(three_documents().bytes(), three_documents_bin());
  const IndexedDataset dataset = open();
  const Ids all{10, 11, 12, 13};
  for (std::int64_t n = 0; n <= 4; ++n)
    EXPECT_EQ(dataset.tokens(0, Tokens(n)), Ids(all.begin(), all.begin() + n));
  std::vector<std::int64_t> out(2);
  dataset.copy_tokens(2, Tokens(0), out);
  EXPECT_EQ(out, (std::vector<std::int64_t>{20, 21}));
}

TEST_F(IndexedDatasetFile, gives_tokens_from_anywhere_in_a_document) {
  write(three_documents().bytes(), three_documents_bin());  // document 0 has several sequences
  const IndexedDataset dataset = open();
  for (std::int64_t begin = 0; begin <= 4; ++begin)
    for (std::int64_t end = begin; end <= 4; ++end) {
      std::vector<std::int64_t> out(static_cast<std::size_t>(end - begin));
      dataset.copy_tokens(0, Tokens(begin), out);
      for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out[i], 10 + begin + static_cast<std::int64_t>(i));
    }
  std::vector<std::int64_t> beyond(2);
  EXPECT_THROW(dataset.copy_tokens(0, Tokens(3), beyond), InternalError);
}

TEST_F(IndexedDatasetFile, outlives_a_move) {
  write(three_documents().bytes(), three_documents_bin());
  IndexedDataset first = open();
  const IndexedDataset second = std::move(first);
  EXPECT_EQ(second.tokens(2, Tokens(1)), Ids{20});
}

TEST_F(IndexedDatasetFile, may_carry_multimodal_modes) {
  IndexByHand index = three_documents();
  index.modes = std::string(4, '\0');
  write(index.bytes(), three_documents_bin());
  EXPECT_EQ(open().documents(), 3u);
}

TEST_F(IndexedDatasetFile, may_be_empty) {
  IndexByHand index;
  index.document_entries = 1;
  index.documents = {0};
  write(index.bytes(), "");
  EXPECT_EQ(open().documents(), 0u);
  EXPECT_TRUE(open().lengths().empty());
}

TEST_F(IndexedDatasetFile, may_leave_gaps_in_the_bin) {
  IndexByHand index = three_documents();
  index.offsets[3] = 17;  // not even a multiple of the token's size
  write(index.bytes(), three_documents_bin() + "x");
  // Bytes from 17 on: 20 = 14 00 00 00 shifted by one byte gives 00 00 00 15.
  EXPECT_EQ(open().tokens(2, Tokens(1)), Ids{21 << 24});
}

TEST_F(IndexedDatasetFile, of_every_integer_dtype_is_read) {
  struct Case {
    std::uint8_t code;
    int bytes;
    std::int32_t largest;
  };
  for (const Case c : {Case{1, 1, 255}, Case{2, 1, 127}, Case{3, 2, 32'767}, Case{4, 4, INT32_MAX},
                       Case{5, 8, INT32_MAX}, Case{8, 2, 65'535}}) {
    IndexByHand index;
    index.dtype = c.code;
    index.sequence_count = 1;
    index.document_entries = 2;
    index.lengths = {2};
    index.offsets = {0};
    index.documents = {0, 1};
    write(index.bytes(), little_endian(7, c.bytes) +
                             little_endian(static_cast<std::uint64_t>(c.largest), c.bytes));
    EXPECT_EQ(open().tokens(0, Tokens(2)), (Ids{7, c.largest})) << "code " << int{c.code};
    EXPECT_EQ(bytes_per_token(open().dtype()), static_cast<std::size_t>(c.bytes));
  }
}

TEST_F(IndexedDatasetFile, with_a_token_that_is_no_id_names_its_place) {
  IndexByHand index = three_documents();
  std::string bin = three_documents_bin();
  bin.replace(12, 4, little_endian(static_cast<std::uint64_t>(-5), 4));
  write(index.bytes(), bin);
  const IndexedDataset dataset = open();
  EXPECT_EQ(dataset.tokens(0, Tokens(3)), (Ids{10, 11, 12}));  // the bad one is not touched
  expect_invalid_input([&] { (void)dataset.tokens(0, Tokens(4)); },
                       {"set.idx", "token 3 of document 0", "-5"});

  IndexByHand wide;
  wide.dtype = 5;
  wide.sequence_count = 1;
  wide.document_entries = 2;
  wide.lengths = {1};
  wide.offsets = {0};
  wide.documents = {0, 1};
  write(wide.bytes(), little_endian(1ULL << 31, 8));
  expect_invalid_input([&] { (void)open().tokens(0, Tokens(1)); }, {"2147483648", "2147483647"});
}

TEST_F(IndexedDatasetFile, checks_what_is_asked_of_it) {
  write(three_documents().bytes(), three_documents_bin());
  const IndexedDataset dataset = open();
  EXPECT_THROW((void)dataset.length(3), InternalError);
  EXPECT_THROW((void)dataset.tokens(3, Tokens(0)), InternalError);
  EXPECT_THROW((void)dataset.tokens(2, Tokens(3)), InternalError);
  EXPECT_THROW((void)dataset.tokens(2, Tokens(-1)), InternalError);
}

TEST_F(IndexedDatasetFile, that_is_missing_is_named_with_the_remedy) {
  expect_invalid_input([&] { (void)open(); }, {"set.bin", "No such file", "PREFIX"});
  put_file(folder_ / "set.bin", "");
  expect_invalid_input([&] { (void)open(); }, {"set.idx", "No such file", "PREFIX"});
  std::filesystem::create_directory(folder_ / "set.idx");
  expect_invalid_input([&] { (void)open(); }, {"set.idx", "not a regular file"});
}

TEST_F(IndexedDatasetFile, that_is_a_pipe_is_refused_without_waiting) {
  put_file(folder_ / "set.bin", "");
  ASSERT_EQ(::mkfifo((folder_ / "set.idx").c_str(), 0600), 0);
  expect_invalid_input([&] { (void)open(); }, {"set.idx", "not a regular file"});
}

TEST_F(IndexedDatasetFile, truncated_anywhere_is_refused) {
  const std::string idx = three_documents().bytes();
  for (std::size_t size = 0; size < idx.size(); ++size) {
    write(idx.substr(0, size), three_documents_bin());
    EXPECT_THROW((void)open(), InvalidInput) << size << " bytes";
  }
}

TEST_F(IndexedDatasetFile, with_a_truncated_bin_is_refused) {
  const std::string bin = three_documents_bin();
  for (std::size_t size = 0; size < bin.size(); ++size) {
    write(three_documents().bytes(), bin.substr(0, size));
    EXPECT_THROW((void)open(), InvalidInput) << size << " bytes";
  }
}

TEST_F(IndexedDatasetFile, with_a_bin_that_is_longer_than_it_says_is_refused_with_both_sizes) {
  for (const std::size_t more : {1U, 4U, 999U}) {
    write(three_documents().bytes(), three_documents_bin() + std::string(more, '\0'));
    expect_invalid_input(
        [&] { (void)open(); },
        {"set.idx", "byte 24", fmt::format("{} bytes", 24 + more), "same dataset"});
  }
  IndexByHand none;
  none.document_entries = 1;
  none.documents = {0};
  write(none.bytes(), "tokens");
  expect_invalid_input([&] { (void)open(); }, {"byte 0", "6 bytes"});
}

TEST_F(IndexedDatasetFile, with_a_wrong_header_field_is_refused) {
  expect_refused([](auto& i) { i.magic[0] = 'X'; }, {"set.idx", "MMIDIDX"});
  expect_refused([](auto& i) { i.magic[8] = 'X'; }, {"MMIDIDX"});
  expect_refused([](auto& i) { i.version = 2; }, {"version 2"});
  expect_refused([](auto& i) { i.dtype = 0; }, {"dtype code 0"});
  expect_refused([](auto& i) { i.dtype = 9; }, {"dtype code 9"});
  expect_refused([](auto& i) { i.dtype = 6; }, {"float64", "integers"});
  expect_refused([](auto& i) { i.dtype = 7; }, {"float32", "integers"});
}

TEST_F(IndexedDatasetFile, with_a_wrong_count_is_refused) {
  expect_refused([](auto& i) { i.sequence_count = 3; }, {"4 document indices"});
  expect_refused([](auto& i) { i.sequence_count = 5; }, {"document index count 4"});
  expect_refused([](auto& i) { i.sequence_count = 100; }, {"sequence count 100"});
  expect_refused([](auto& i) { i.document_entries = 0; }, {"document index count 0"});
  expect_refused([](auto& i) { i.document_entries = 3; }, {"8 bytes follow"});
  expect_refused([](auto& i) { i.document_entries = 5; }, {"document index count 5"});
  expect_refused([](auto& i) { i.modes = "abc"; }, {"3 bytes follow"});
}

TEST_F(IndexedDatasetFile, with_a_count_that_overflows_is_refused) {
  expect_refused([](auto& i) { i.sequence_count = UINT64_MAX; }, {"18446744073709551615"});
  expect_refused([](auto& i) { i.document_entries = UINT64_MAX; }, {"18446744073709551615"});
  // 12 · (2^62 + 4) = 3 · 2^64 + 48: modulo 2^64 the right size for 4 sequences.
  expect_refused([](auto& i) { i.sequence_count = (1ULL << 62) + 4; }, {"4611686018427387908"});
  // 8 · (2^61 + 4) = 2^64 + 32: modulo 2^64 the right size for 4 entries.
  expect_refused([](auto& i) { i.document_entries = (1ULL << 61) + 4; }, {"2305843009213693956"});
}

TEST_F(IndexedDatasetFile, with_a_wrong_sequence_is_refused) {
  expect_refused([](auto& i) { i.lengths[1] = -1; }, {"sequence 1 has length -1"});
  expect_refused([](auto& i) { i.lengths[1] = INT32_MIN; }, {"sequence 1 has length -2147483648"});
  expect_refused([](auto& i) { i.lengths[0] = 4; }, {"sequence 1 begins at byte 12"});
  expect_refused([](auto& i) { i.lengths[3] = 3; }, {"sequence 3 needs 3 tokens", "24 bytes"});
  expect_refused([](auto& i) { i.lengths[3] = INT32_MAX; }, {"sequence 3"});
  expect_refused([](auto& i) { i.offsets[0] = -1; }, {"sequence 0 begins at byte -1"});
  expect_refused([](auto& i) { i.offsets[2] = 15; }, {"sequence 2 begins at byte 15"});
  expect_refused([](auto& i) { i.offsets[3] = 25; }, {"sequence 3"});
  expect_refused([](auto& i) { i.offsets[3] = 20; }, {"sequence 3"});
  // offset + 8 would overflow into a small number.
  expect_refused([](auto& i) { i.offsets[3] = INT64_MAX - 3; }, {"sequence 3"});
}

TEST_F(IndexedDatasetFile, with_a_wrong_document_index_is_refused) {
  expect_refused([](auto& i) { i.documents[0] = 1; }, {"document index 0 is 1"});
  expect_refused([](auto& i) { i.documents[1] = -1; }, {"document index 1 is -1"});
  expect_refused([](auto& i) { i.documents[2] = 1; }, {"document index 2 is 1", "2 to 4"});
  expect_refused([](auto& i) { i.documents[2] = 5; }, {"document index 2 is 5"});
  expect_refused([](auto& i) { i.documents[3] = 3; }, {"last document index is 3"});
  expect_refused([](auto& i) { i.documents[3] = INT64_MAX; }, {"document index 3"});
}

RC_GTEST_PROP(IndexedDatasetFuzz, either_refuses_damaged_bytes_or_reads_within_the_files, ()) {
  const TempFolder folder;
  std::string idx = three_documents().bytes();
  const auto changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i)
    idx[*rc::gen::inRange<std::size_t>(0, idx.size())] = *rc::gen::arbitrary<char>();
  put_file(folder / "set.idx", idx);
  put_file(folder / "set.bin", three_documents_bin());
  try {
    const IndexedDataset dataset = IndexedDataset::open(folder / "set");
    std::int64_t total = 0;
    for (std::size_t d = 0; d < dataset.documents(); ++d) {
      total += dataset.length(d).count();
      RC_ASSERT(static_cast<std::int64_t>(dataset.tokens(d, dataset.length(d)).size()) ==
                dataset.length(d).count());
    }
    // Sequences do not overlap, so they hold no more than the .bin's 24 bytes.
    RC_ASSERT(total * static_cast<std::int64_t>(bytes_per_token(dataset.dtype())) <= 24);
  } catch (const InvalidInput&) {
    RC_SUCCEED("refused");
  }
}

}  // namespace
}  // namespace slimpack
