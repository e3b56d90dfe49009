// Pipes, devices and descriptors: read to their end, and written as they stand.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <algorithm>
#include <future>
#include <string>

#include "slimpack/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

class Streams : public ::testing::Test {
 protected:
  fs::path pipe() {
    EXPECT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    return folder_ / "pipe";
  }

  /// A character device of this test's own; false where that is not allowed, or of no use.
  bool make_device(const fs::path& path, unsigned minor) {
    return ::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, minor)) == 0 &&
           Descriptor(::open(path.c_str(), O_WRONLY));
  }

  TempFolder folder_;
};

TEST_F(Streams, are_read_to_their_end) {
  const fs::path path = pipe();
  const std::string text(200'000, 'x');  // more than a pipe holds
  auto writer = std::async(std::launch::async, [&] { put_file(path, text); });
  EXPECT_EQ(read_stream(path, "list"), text);
  writer.get();
  put_file(folder_ / "file", "text");
  EXPECT_EQ(read_stream(folder_ / "file", "list"), "text");
}

TEST_F(Streams, of_more_bytes_than_allowed_are_refused) {
  if (!make_device(folder_ / "zero", 5)) GTEST_SKIP() << "no devices can be made here";
  expect_invalid_input([&] { (void)read_stream(folder_ / "zero", "list", 1000); },
                       {"list", "zero", "more than 1000 bytes"});
  put_file(folder_ / "file", "12345");
  EXPECT_EQ(read_stream(folder_ / "file", "list", 5), "12345");
  expect_invalid_input([&] { (void)read_stream(folder_ / "file", "list", 4); }, {"more than 4"});
}

TEST_F(Streams, that_cannot_be_read_are_named) {
  expect_invalid_input([&] { (void)read_stream(folder_ / "none", "list"); },
                       {"list", "none", "does not exist"});
  expect_invalid_input([&] { (void)read_stream(folder_.path(), "list"); },
                       {"list", folder_.path().string(), "Is a directory"});
}

TEST_F(Streams, that_are_pipes_are_written_and_stay_pipes) {
  const fs::path path = pipe();
  fs::create_symlink(path, folder_ / "link");
  auto reader = std::async(std::launch::async, [&] { return get_file(path); });
  write_file(folder_ / "link", "text");
  EXPECT_EQ(reader.get(), "text");
  EXPECT_TRUE(fs::is_fifo(path) && fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(folder_.entries(), 2);
}

TEST_F(Streams, that_are_devices_are_written_and_stay_devices) {
  if (!make_device(folder_ / "null", 3)) GTEST_SKIP() << "no devices can be made here";
  write_file(folder_ / "null", "text");
  EXPECT_TRUE(fs::is_character_file(folder_ / "null"));
  EXPECT_EQ(folder_.entries(), 1);
}

TEST_F(Streams, that_are_full_fail_the_run) {
  if (!make_device(folder_ / "full", 7)) GTEST_SKIP() << "no devices can be made here";
  expect_run_failed([&] { write_file(folder_ / "full", "text"); },
                    {"full", "No space left on device", "free some space"});
  EXPECT_TRUE(fs::is_character_file(folder_ / "full"));
}

TEST_F(Streams, that_are_descriptors_go_on_where_they_are) {
  const Descriptor file(::open((folder_ / "file").c_str(), O_WRONLY | O_CREAT, 0600));
  const auto write = [&](std::string_view text) {
    EXPECT_TRUE(write_all(file, std::as_bytes(std::span(text))));
  };
  const fs::path path = "/proc/self/fd/" + std::to_string(file.number());
  fs::create_symlink(path, folder_ / "link");
  write("a");
  write_file(path, "b");
  write_file(folder_ / "link", "c");
  write("d");
  EXPECT_EQ(get_file(folder_ / "file"), "abcd");
  EXPECT_EQ(folder_.entries(), 2);
}

TEST_F(Streams, that_nothing_can_be_written_to_are_refused) {
  expect_invalid_input([&] { write_file("/proc/self/fd/1000000", "x"); },
                       {"cannot write", "1000000", "Bad file descriptor"});
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = folder_ / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::ranges::copy(path, address.sun_path);
  ASSERT_EQ(::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  expect_invalid_input([&] { write_file(path, "x"); }, {"cannot write", path, "is a socket"});
}

}  // namespace
}  // namespace slimpack
