#include "slimpack/data/build.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "slimpack/data/indexed_dataset.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

/// Paths relative to `folder`, in the order of the search.
std::vector<std::string> found(const TempFolder& folder, const FileSearch& search) {
  std::vector<std::string> names;
  for (const fs::path& file : find_files(search).files)
    names.push_back(file.lexically_relative(folder.path()).string());
  return names;
}

using Names = std::vector<std::string>;

BuildReport build(const std::vector<fs::path>& files, const fs::path& prefix) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> null(std::fopen("/dev/null", "w"),
                                                             &std::fclose);
  Progress progress(null.get(), ProgressStyle::kLines, "test", 0);
  return build_byte_dataset(files, prefix, progress);
}

TEST(FindFiles, walks_every_folder_and_sorts_by_path) {
  const TempFolder folder;
  for (const char* name : {"b.py", "a/z.py", "a/deep/er/x.py", "a.py", "B.py", "note.txt"})
    put_file(folder / name, "x");
  // Bytewise: capitals first, "a.py" before "a/" because '.' is 0x2e and '/' 0x2f.
  EXPECT_EQ(found(folder, {.from = folder.path(), .glob = "*.py"}),
            (Names{"B.py", "a.py", "a/deep/er/x.py", "a/z.py", "b.py"}));
  EXPECT_EQ(found(folder, {.from = folder.path(), .glob = "[ab].p?"}), (Names{"a.py", "b.py"}));
}

TEST(FindFiles, leaves_out_hidden_and_named_folders) {
  const TempFolder folder;
  for (const char* name : {"a.py", ".git/a.py", "lib/site-packages/a.py", "__pycache__/a.py",
                           "site-packages-not/a.py", ".hidden.py"})
    put_file(folder / name, "x");
  EXPECT_EQ(found(folder, {.from = folder.path(), .glob = "*.py"}),
            (Names{"a.py", "site-packages-not/a.py"}));
  EXPECT_EQ(found(folder, {.from = folder.path(), .glob = "*.py", .exclude_folders = {"site*"}}),
            (Names{".git/a.py", "__pycache__/a.py", "a.py"}));
  EXPECT_EQ(found(folder, {.from = folder.path(), .glob = ".*.py"}), Names{".hidden.py"});
}

TEST(FindFiles, enters_the_given_folder_even_when_it_is_hidden) {
  const TempFolder folder;
  put_file(folder / ".hidden/a.py", "x");
  EXPECT_EQ(found(folder, {.from = folder / ".hidden"}), Names{".hidden/a.py"});
}

TEST(FindFiles, follows_links_to_files_but_not_to_folders) {
  const TempFolder folder;
  put_file(folder / "real/a.py", "x");
  fs::create_symlink(folder / "real/a.py", folder / "link.py");
  fs::create_symlink(folder.path(), folder / "loop.py");  // a folder, whatever its name
  EXPECT_EQ(found(folder, {.from = folder.path(), .glob = "*.py"}),
            (Names{"link.py", "real/a.py"}));
}

TEST(FindFiles, leaves_out_pipes) {
  const TempFolder folder;
  put_file(folder / "a", "x");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(found(folder, {.from = folder.path()}), Names{"a"});
}

TEST(FindFiles, reports_dangling_links) {
  const TempFolder folder;
  put_file(folder / "a.py", "x");
  fs::create_symlink("nowhere", folder / "b.py");
  const FoundFiles files = find_files({.from = folder.path(), .glob = "*.py"});
  ASSERT_EQ(files.skipped.size(), 1u);
  EXPECT_EQ(files.skipped[0].path, folder / "b.py");
  EXPECT_EQ(files.skipped[0].reason, "No such file or directory");
}

TEST(FindFiles, reports_folders_that_cannot_be_read) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TempFolder folder;
  put_file(folder / "a.py", "x");
  put_file(folder / "closed/b.py", "x");
  ASSERT_EQ(::chmod((folder / "closed").c_str(), 0), 0);
  const FoundFiles files = find_files({.from = folder.path(), .glob = "*.py"});
  ASSERT_EQ(::chmod((folder / "closed").c_str(), 0700), 0);
  EXPECT_EQ(files.files.size(), 1u);
  ASSERT_EQ(files.skipped.size(), 1u);
  EXPECT_EQ(files.skipped[0].reason, "Permission denied");
}

TEST(FindFiles, leaves_out_the_dataset_that_will_be_written) {
  const TempFolder folder;
  for (const char* name : {"a.txt", "set.bin", "set.idx", "set.bin.tmp77", "set.idx.tmp77",
                           "set.mask.bin", "set.mask.idx", "other.bin", "deep/set.bin"})
    put_file(folder / name, "x");
  fs::create_symlink("set.bin", folder / "link");
  const FoundFiles files = find_files({.from = folder.path(), .out = folder / "set"});
  Names names;
  for (const fs::path& file : files.files)
    names.push_back(file.lexically_relative(folder.path()).string());
  EXPECT_EQ(names, (Names{"a.txt", "deep/set.bin", "other.bin"}));
  EXPECT_EQ(files.skipped.size(), 7u);
  for (const SkippedPath& skipped : files.skipped)
    EXPECT_NE(skipped.reason.find("dataset that is written"), std::string::npos);
}

TEST(FindFiles, names_what_it_cannot_search) {
  const TempFolder folder;
  put_file(folder / "file", "x");
  expect_invalid_input([&] { (void)find_files({.from = folder / "nope"}); },
                       {"nope", "not a folder"});
  expect_invalid_input([&] { (void)find_files({.from = folder / "file"}); },
                       {"file", "not a folder"});
  expect_invalid_input([&] { (void)find_files({.from = folder.path(), .glob = "*.py"}); },
                       {"no file below", "*.py"});
}

TEST(BuildByteDataset, turns_bytes_into_tokens_and_closes_each_document) {
  const TempFolder folder;
  put_file(folder / "a", std::string("h\0\xff", 3));
  put_file(folder / "b", "\n");
  const BuildReport report = build({folder / "a", folder / "b"}, folder / "set");
  EXPECT_EQ(report.documents, 2u);
  EXPECT_EQ(report.tokens, Tokens(6));  // 3 + 1 bytes and 2 ends
  const IndexedDataset dataset = IndexedDataset::open(folder / "set");
  ASSERT_EQ(dataset.lengths(), (std::vector{Tokens(4), Tokens(2)}));
  EXPECT_EQ(dataset.tokens(0, Tokens(4)),
            (std::vector<std::int32_t>{'h', 0, 255, kByteEndOfDocument}));
  EXPECT_EQ(dataset.tokens(1, Tokens(2)), (std::vector<std::int32_t>{'\n', kByteEndOfDocument}));
}

TEST(BuildByteDataset, skips_empty_files_and_reports_unreadable_ones) {
  const TempFolder folder;
  put_file(folder / "a", "text");
  put_file(folder / "empty", "");
  const BuildReport report =
      build({folder / "a", folder / "empty", folder / "gone"}, folder / "set");
  EXPECT_EQ(report.documents, 1u);
  EXPECT_EQ(report.empty_files, 1u);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].path, folder / "gone");
  EXPECT_NE(report.skipped[0].reason.find("does not exist"), std::string::npos);
}

TEST(BuildByteDataset, without_a_document_writes_nothing) {
  const TempFolder folder;
  put_file(folder / "empty", "");
  expect_invalid_input([&] { (void)build({folder / "empty"}, folder / "set"); },
                       {"none of the 1 files", "1 are empty"});
  EXPECT_EQ(folder.entries(), 1);  // the empty file
}

TEST(BuildByteDataset, repeats_byte_by_byte) {
  const TempFolder folder;
  for (const char* name : {"c", "a", "b/x"}) put_file(folder.path() / "in" / name, name);
  for (const char* prefix : {"first", "second"})
    (void)build(find_files({.from = folder / "in"}).files, folder / prefix);
  EXPECT_EQ(get_file(folder / "first.bin"), get_file(folder / "second.bin"));
  EXPECT_EQ(get_file(folder / "first.idx"), get_file(folder / "second.idx"));
}

TEST(BuildByteDataset, repeats_byte_by_byte_in_the_folder_of_its_files) {
  const TempFolder folder;
  for (const char* name : {"c", "a", "b/x"}) put_file(folder / name, name);
  std::vector<std::string> bins;
  for (int i = 0; i < 2; ++i) {
    (void)build(find_files({.from = folder.path(), .out = folder / "set"}).files, folder / "set");
    bins.push_back(get_file(folder / "set.bin"));
  }
  EXPECT_EQ(bins[0], bins[1]);
}

}  // namespace
}  // namespace slimpack
