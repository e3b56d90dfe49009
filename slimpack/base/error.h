// Errors. InvalidInput: bad input. RunFailed: good input, but the run cannot go on. InternalError:
// a broken invariant, which is a bug. Infeasible problems and reached limits are results, not
// errors.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace slimpack {

/// The user's input cannot be used. The message is one line: the value, the rule that it breaks and
/// the remedy. Programs print it and exit with code 2.
class InvalidInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The input was good, but the run could not do its work: the disk is full, training has diverged.
/// The message is one line: the cause and the remedy. Programs print it and exit with code 1.
class RunFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Somebody stopped the run (Ctrl-C, SIGTERM). Programs exit with code 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An invariant is broken: a bug of this project, never the user's fault. The message has the place
/// in the source.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The text with '?' for every control character. Values that messages quote may hold line ends.
[[nodiscard]] std::string one_line(std::string text);

/// Throws InvalidInput with a formatted message, as one line.
template <class... Args>
[[noreturn]] void invalid_input(fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidInput(one_line(fmt::format(format, std::forward<Args>(args)...)));
}

/// Throws RunFailed with a formatted message, as one line.
template <class... Args>
[[noreturn]] void run_failed(fmt::format_string<Args...> format, Args&&... args) {
  throw RunFailed(one_line(fmt::format(format, std::forward<Args>(args)...)));
}

/// The failure as a text that one process sends to another. It is never empty.
[[nodiscard]] std::string failure_text(const std::exception& failure);
/// Throws the failure that failure_text wrote into `text`, with `addition` appended to its message.
/// InvalidInput stays InvalidInput; every other failure becomes RunFailed.
/// REQUIRES: text is not empty.
[[noreturn]] void throw_failure(std::string_view text, std::string_view addition = "");

/// Throws InternalError.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& detail);

}  // namespace slimpack

/// SLIMPACK_CHECK(condition) or SLIMPACK_CHECK(condition, "format", args…) throws InternalError
/// unless the condition holds. Every build checks it.
#define SLIMPACK_CHECK(condition, ...)                                                         \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::slimpack::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
