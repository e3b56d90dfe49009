#include "slimpack/base/error.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <type_traits>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

TEST(InvalidInput, is_one_line_whatever_it_quotes) {
  expect_invalid_input([] { invalid_input("format is \"{}\"", "a\nb\x1b[2J\x7f"); },
                       {"format is \"a?b?[2J?\""});
}

TEST(RunFailed, is_one_line_and_no_bad_input) {
  expect_run_failed([] { run_failed("loss is \"{}\"", "a\nb"); }, {"loss is \"a?b\""});
  static_assert(!std::is_base_of_v<InvalidInput, RunFailed>);
}

TEST(FailureText, comes_out_as_the_same_kind_of_failure) {
  const auto again = [](const auto& failure) { throw_failure(failure_text(failure), "; so"); };
  expect_invalid_input([&] { again(InvalidInput("bad")); }, {"bad; so"});
  expect_run_failed([&] { again(RunFailed("disk is full")); }, {"disk is full; so"});
  // A failure of a kind that another process does not know is a failure of the run.
  expect_run_failed([&] { again(std::length_error("")); }, {"; so"});
}

}  // namespace
}  // namespace slimpack
