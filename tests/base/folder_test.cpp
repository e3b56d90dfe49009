#include "slimpack/base/folders.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

TEST(Folder, ListsFilesAndFoldersByName) {
  const TempFolder folder;
  put_file(folder / "b", "");
  put_file(folder / "a/inside", "");
  put_file(folder / ".hidden", "");
  EXPECT_EQ(folder_entries(folder.path()), (std::vector<std::string>{".hidden", "a", "b"}));
  EXPECT_TRUE(folder_entries(folder / "none").empty());
}

TEST(Folder, IsRemovedWithAllInItButNotWhatLinksPointTo) {
  const TempFolder folder;
  put_file(folder / "kept/file", "mine");
  put_file(folder / "gone/deep/file", "");
  fs::create_directory_symlink(folder / "kept", folder / "gone/link");
  remove_folder(folder / "gone");
  EXPECT_EQ(folder_entries(folder.path()), std::vector<std::string>{"kept"});
  EXPECT_EQ(get_file(folder / "kept/file"), "mine");
  remove_folder(folder / "none");  // nothing to do
}

TEST(Folder, RenamesAndFlushesOrSaysWhyNot) {
  const TempFolder folder;
  put_file(folder / "a/file", "text");
  rename_path(folder / "a", folder / "b");
  flush_folder(folder.path());
  EXPECT_EQ(get_file(folder / "b/file"), "text");
  expect_invalid_input([&] { rename_path(folder / "a", folder / "c"); }, {"/a'", "/c'", "No such"});
  expect_invalid_input([&] { flush_folder(folder / "a"); }, {"/a'", "No such"});
}

}  // namespace
}  // namespace slimpack
