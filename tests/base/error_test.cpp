#include "slimpack/base/error.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

TEST(InvalidInput, is_one_line_whatever_it_quotes) {
  expect_invalid_input([] { invalid_input("format is \"{}\"", "a\nb\x1b[2J\x7f"); },
                       {"format is \"a?b?[2J?\""});
}

}  // namespace
}  // namespace slimpack
