#include "slimpack/base/destination.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

TEST(OutputFailed, fails_the_run_where_the_path_is_good) {
  const auto fail = [](int cause) {
    return [cause] { output_failed("write", "out.json", cause, "set x elsewhere"); };
  };
  expect_run_failed(fail(ENOSPC), {"cannot write 'out.json': No space left", "free some space or",
                                   "set x elsewhere"});
  expect_run_failed(fail(EDQUOT), {"quota", "free some space"});
  expect_run_failed(fail(EFBIG), {"File too large", "ulimit -f"});
  expect_run_failed(fail(EIO), {"Input/output error", "check the disk"});
}

TEST(OutputFailed, is_bad_input_where_nothing_can_be_written_at_the_path) {
  for (const int cause : {EACCES, EPERM, EROFS, EISDIR, ENOTDIR, ENOENT, ENAMETOOLONG, ELOOP})
    expect_invalid_input([&] { output_failed("create", "out.json", cause); },
                         {"cannot create 'out.json': ", "; give another path"});
}

}  // namespace
}  // namespace slimpack
