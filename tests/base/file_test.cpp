#include "slimpack/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

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
  expect_invalid_input([&] { write_file(folder / "out", "x"); },
                       {"cannot write", "out", "Is a directory"});
  expect_invalid_input([&] { write_file(folder / "none/", "x"); },
                       {"cannot write", "none/", "Is a directory"});
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

TEST(WritableFile, IsOneThatCouldBeWrittenAndIsNotTouched) {
  const TempFolder folder;
  put_file(folder / "old", "text");
  require_writable_file(folder / "old");
  require_writable_file(folder / "new");
  require_writable_file("/dev/null");
  EXPECT_EQ(read_file(folder / "old", "file"), "text");
  EXPECT_EQ(folder.entries(), 1);
  expect_invalid_input([&] { require_writable_file(folder.path()); }, {"cannot write"});
  expect_invalid_input([&] { require_writable_file(folder / "old" / "below"); }, {"cannot"});
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(AtomicFile, keeps_the_permissions_of_what_it_replaces) {
  const TempFolder folder;
  const mode_t before = ::umask(027);
  write_file(folder / "new", "x");
  EXPECT_EQ(mode_of(folder / "new"), 0640u);  // 0644 without what 027 forbids
  ASSERT_EQ(::chmod((folder / "new").c_str(), 0606), 0);
  write_file(folder / "new", "y");
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "new"), 0606u);
}

TEST(AtomicFile, follows_links_and_leaves_them_links) {
  const TempFolder folder;
  put_file(folder / "data/real", "old");
  fs::create_symlink("data/real", folder / "near");  // from the folder of the link
  fs::create_symlink(folder / "near", folder / "far");
  write_file(folder / "far", "new");
  EXPECT_EQ(get_file(folder / "data/real"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "near") && fs::is_symlink(folder / "far"));
  fs::create_symlink("later/real", folder / "dangling");
  write_file(folder / "dangling", "first");
  EXPECT_EQ(get_file(folder / "later/real"), "first");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(folder.entries(), 7);  // three links, two folders with a file each
}

TEST(AtomicFile, refuses_links_that_lead_in_a_circle) {
  const TempFolder folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  expect_invalid_input([&] { write_file(folder / "a", "x"); },
                       {"cannot write", "/a'", "symbolic links"});
}

TEST(AtomicFile, is_for_regular_files_only) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_invalid_input([&] { AtomicFile(folder / "pipe"); }, {"pipe", "not a regular file"});
}

/// Runs `work` in a process of its own; how that ended, as waitpid says.
template <class Work>
int status_of_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    std::_Exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

bool has_files_without_names(const fs::path& folder) {
  return static_cast<bool>(Descriptor(::open(folder.c_str(), O_WRONLY | O_TMPFILE, 0600)));
}

TEST(AtomicFile, of_a_process_that_is_killed_is_gone) {
  const TempFolder folder;
  if (!has_files_without_names(folder.path())) GTEST_SKIP() << "this file system needs names";
  const int status = status_of_child([&] {
    AtomicFile file(folder / "out");
    file.write("half");
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.entries(), 0);
}

TEST(AtomicFile, beyond_the_limit_of_file_sizes_fails_and_leaves_the_file_of_before) {
  const TempFolder folder;
  write_file(folder / "out", "old");
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4, 4};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file(folder / "out", "12345");
    } catch (const RunFailed& e) {
      // The failure is no InvalidInput: the path is good.
      std::_Exit(std::string_view(e.what()).find("File too large; raise the limit") !=
                         std::string_view::npos
                     ? 42
                     : 43);
    }
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(get_file(folder / "out"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFile, knows_what_a_killed_process_has_left_of_it) {
  const TempFolder folder;
  for (const char* name :
       {"a/set.bin.tmp12", "a/set.bin.tmp", "a/set.bin.tmp1x", "b/set.bin.tmp12"})
    put_file(folder / name, "");
  const auto left = [&](const char* name) {
    return is_left_behind(folder / name, folder / "a/set.bin");
  };
  EXPECT_TRUE(left("a/set.bin.tmp12"));
  EXPECT_FALSE(left("a/set.bin.tmp") || left("a/set.bin.tmp1x") || left("b/set.bin.tmp12"));
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
