// Expectations on the messages of InvalidInput and RunFailed.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {

/// Runs `action`; succeeds when it throws Error with a message of one line that contains every one
/// of `parts`.
template <class Error, class Action>
void expect_error(Action&& action, std::initializer_list<std::string_view> parts) {
  try {
    action();
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string_view part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
    return;
  }
  ADD_FAILURE() << "the expected error was not thrown";
}

template <class Action>
void expect_invalid_input(Action&& action, std::initializer_list<std::string_view> parts) {
  expect_error<InvalidInput>(action, parts);
}

template <class Action>
void expect_run_failed(Action&& action, std::initializer_list<std::string_view> parts) {
  expect_error<RunFailed>(action, parts);
}

}  // namespace slimpack
