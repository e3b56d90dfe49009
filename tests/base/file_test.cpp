#include "slimpack/base/file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

TEST(ReadFile, returns_every_byte) {
  const TempFolder folder;
  const std::string bytes("a\0b\r\n\xff", 6);
  put_file(folder / "file", bytes);
  EXPECT_EQ(read_file(folder / "file", "file"), bytes);
  put_file(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "empty", "file"), "");
}

TEST(ReadFile, names_what_is_missing) {
  const TempFolder folder;
  expect_invalid_input([&] { (void)read_file(folder / "nope", "run configuration"); },
                       {"run configuration", "nope", "does not exist"});
}

TEST(ReadFile, refuses_what_is_no_regular_file) {
  const TempFolder folder;
  expect_invalid_input([&] { (void)read_file(folder.path(), "plan"); },
                       {"plan", folder.path().string(), "not a regular file"});
}

TEST(ReadFile, refuses_more_bytes_than_allowed) {
  const TempFolder folder;
  put_file(folder / "file", "12345");
  EXPECT_EQ(read_file(folder / "file", "file", 5), "12345");
  expect_invalid_input([&] { (void)read_file(folder / "file", "file", 4); }, {"5 bytes", "4"});
}

TEST(AtomicFile, appears_only_when_committed) {
  const TempFolder folder;
  AtomicFile file(folder / "out");
  file.write("complete");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  file.commit();
  EXPECT_EQ(get_file(folder / "out"), "complete");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFile, leaves_nothing_behind_when_not_committed) {
  const TempFolder folder;
  {
    AtomicFile file(folder / "out");
    file.write("half");
    EXPECT_EQ(folder.entries(), 1);  // the temporary file
  }
  EXPECT_EQ(folder.entries(), 0);
}

TEST(AtomicFile, that_is_not_committed_keeps_the_file_of_before) {
  const TempFolder folder;
  write_file(folder / "out", "old");
  { AtomicFile(folder / "out").write("new"); }
  EXPECT_EQ(get_file(folder / "out"), "old");
  write_file(folder / "out", "new");
  EXPECT_EQ(get_file(folder / "out"), "new");
}

TEST(AtomicFile, creates_missing_folders) {
  const TempFolder folder;
  write_file(folder / "a/b/out", "x");
  EXPECT_EQ(get_file(folder / "a/b/out"), "x");
}

TEST(AtomicFile, names_the_path_when_a_file_stands_where_a_folder_should) {
  const TempFolder folder;
  put_file(folder / "file", "");
  expect_invalid_input([&] { write_file(folder / "file/out", "x"); },
                       {"cannot create", "file/out", "Not a directory"});
}

TEST(AtomicFile, does_not_replace_a_folder) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "out");
  expect_invalid_input([&] { write_file(folder / "out", "x"); }, {"cannot rename", "out"});
  EXPECT_EQ(folder.entries(), 1);  // the folder, and no temporary file
}

TEST(AtomicFile, cannot_be_made_in_a_read_only_folder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TempFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
  expect_invalid_input([&] { write_file(folder / "out", "x"); },
                       {"cannot create", "Permission denied"});
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
}

RC_GTEST_PROP(AtomicFile, holds_what_was_written_in_pieces, (std::vector<std::string> pieces)) {
  const TempFolder folder;
  AtomicFile file(folder / "out");
  std::string all;
  for (const std::string& piece : pieces) {
    file.write(piece);
    all += piece;
  }
  file.commit();
  RC_ASSERT(get_file(folder / "out") == all);
}

}  // namespace
}  // namespace slimpack
