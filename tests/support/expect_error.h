// Expectations on the messages of InvalidInput.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {

/// Runs `action`; succeeds when it throws InvalidInput with a message of one line that contains
/// every one of `parts`.
template <class Action>
void expect_invalid_input(Action&& action, std::initializer_list<std::string_view> parts) {
  try {
    action();
  } catch (const InvalidInput& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string_view part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
    return;
  }
  ADD_FAILURE() << "no InvalidInput was thrown";
}

}  // namespace slimpack
