#include "slimpack/data/indexed_dataset_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <tuple>

#include "tests/data/index_by_hand.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using Ids = std::vector<std::int32_t>;

void write_dataset(const std::filesystem::path& prefix, std::int64_t vocab_size,
                   const std::vector<Ids>& documents) {
  IndexedDatasetWriter writer(prefix, vocab_size);
  for (const Ids& document : documents) writer.append(document);
  writer.commit();
}

TEST(IndexedDatasetWriter, writes_the_layout_byte_by_byte) {
  const TempFolder folder;
  write_dataset(folder / "set", 257, {{1, 2, 256}, {}, {5}});
  IndexByHand index;
  index.dtype = 8;  // uint16
  index.sequence_count = 3;
  index.document_entries = 4;
  index.lengths = {3, 0, 1};
  index.offsets = {0, 6, 6};
  index.documents = {0, 1, 2, 3};
  EXPECT_EQ(get_file(folder / "set.idx"), index.bytes());
  EXPECT_EQ(get_file(folder / "set.bin"), std::string("\1\0\2\0\0\1\5\0", 8));
}

TEST(IndexedDatasetWriter, takes_uint16_for_vocabularies_below_65500) {
  const TempFolder folder;
  write_dataset(folder / "small", 65'499, {{65'498}});
  write_dataset(folder / "large", 65'500, {{65'499}});
  EXPECT_EQ(get_file(folder / "small.bin"), "\xda\xff");  // 65,498 = 0xffda
  EXPECT_EQ(get_file(folder / "large.bin"), std::string("\xdb\xff\0\0", 4));
  EXPECT_EQ(IndexedDataset::open(folder / "small").dtype(), TokenDtype::kUint16);
  EXPECT_EQ(IndexedDataset::open(folder / "large").dtype(), TokenDtype::kInt32);
}

TEST(IndexedDatasetWriter, counts_documents_and_tokens) {
  const TempFolder folder;
  IndexedDatasetWriter writer(folder / "set", 10);
  writer.append(Ids{1, 2, 3});
  writer.append(Ids{});
  EXPECT_EQ(writer.documents(), 2u);
  EXPECT_EQ(writer.tokens(), Tokens(3));
}

TEST(IndexedDatasetWriter, leaves_nothing_behind_when_not_committed) {
  const TempFolder folder;
  {
    IndexedDatasetWriter writer(folder / "set", 10);
    writer.append(Ids{1, 2, 3});
  }
  EXPECT_EQ(folder.entries(), 0);
}

TEST(IndexedDatasetWriter, keeps_the_dataset_of_before_until_it_is_committed) {
  const TempFolder folder;
  write_dataset(folder / "set", 10, {{1}});
  {
    IndexedDatasetWriter writer(folder / "set", 10);
    writer.append(Ids{2, 3});
  }
  EXPECT_EQ(IndexedDataset::open(folder / "set").tokens(0, Tokens(1)), Ids{1});
  write_dataset(folder / "set", 10, {{2, 3}});
  EXPECT_EQ(IndexedDataset::open(folder / "set").tokens(0, Tokens(2)), (Ids{2, 3}));
  EXPECT_EQ(folder.entries(), 2);
}

TEST(IndexedDatasetWriter, removes_the_bin_when_the_index_cannot_be_written) {
  const TempFolder folder;
  IndexedDatasetWriter writer(folder / "set", 10);
  writer.append(Ids{1});
  // A folder that is not empty stands where the index should go, so the rename fails.
  put_file(folder / "set.idx/file", "");
  expect_invalid_input([&] { writer.commit(); }, {"set.idx"});
  EXPECT_FALSE(std::filesystem::exists(folder / "set.bin"));
  EXPECT_EQ(folder.entries(), 2);  // the folder and the file in it
}

TEST(IndexedDatasetWriter, follows_links_and_leaves_them_links) {
  const TempFolder folder;
  for (const char* name : {"set.bin", "set.idx"})
    std::filesystem::create_symlink(folder.path() / "disk" / name, folder / name);
  for (const Ids& document : {Ids{1}, Ids{2, 3}}) {
    write_dataset(folder / "set", 10, {document});
    for (const char* name : {"set.bin", "set.idx"})
      EXPECT_TRUE(std::filesystem::is_symlink(folder / name)) << name;
    EXPECT_EQ(IndexedDataset::open(folder / "disk/set")
                  .tokens(0, Tokens(static_cast<std::int64_t>(document.size()))),
              document);
  }
}

TEST(IndexedDatasetWriter, names_the_path_that_cannot_be_created) {
  const TempFolder folder;
  put_file(folder / "file", "");
  expect_invalid_input([&] { IndexedDatasetWriter(folder / "file/set", 10); },
                       {"file/set.bin", "Not a directory"});
}

TEST(IndexedDatasetWriter, checks_tokens_against_the_vocabulary) {
  const TempFolder folder;
  IndexedDatasetWriter writer(folder / "set", 257);
  EXPECT_THROW(writer.append(Ids{257}), InternalError);
  EXPECT_THROW(writer.append(Ids{-1}), InternalError);
}

TEST(IndexedDatasetWriter, writes_more_than_its_buffer_holds) {
  const TempFolder folder;
  // 700,000 tokens of 2 bytes exceed one MiB.
  Ids document(700'000);
  for (std::size_t i = 0; i < document.size(); ++i)
    document[i] = static_cast<std::int32_t>(i % 60'000);
  write_dataset(folder / "set", 60'000, {document, {7}});
  const IndexedDataset dataset = IndexedDataset::open(folder / "set");
  EXPECT_EQ(dataset.tokens(0, Tokens(700'000)), document);
  EXPECT_EQ(dataset.tokens(1, Tokens(1)), Ids{7});
}

RC_GTEST_PROP(IndexedDatasetWriter, writes_what_the_reader_reads, ()) {
  const auto vocab = *rc::gen::element<std::int64_t>(1, 257, 65'499, 65'500, 1 << 20);
  const auto token = rc::gen::inRange<std::int32_t>(0, static_cast<std::int32_t>(vocab));
  const auto documents = *rc::gen::container<std::vector<Ids>>(rc::gen::container<Ids>(token));
  const TempFolder folder;
  write_dataset(folder / "set", vocab, documents);
  const IndexedDataset dataset = IndexedDataset::open(folder / "set");
  RC_ASSERT(dataset.documents() == documents.size());
  for (std::size_t d = 0; d < documents.size(); ++d) {
    RC_ASSERT(dataset.length(d).count() == static_cast<std::int64_t>(documents[d].size()));
    RC_ASSERT(dataset.tokens(d, dataset.length(d)) == documents[d]);
  }
}

}  // namespace
}  // namespace slimpack
