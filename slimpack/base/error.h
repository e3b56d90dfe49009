// Errors: bad input is InvalidInput and a run that cannot go on RunFailed (one line: value, rule,
// remedy); a broken invariant is a bug and ends in InternalError with its place. Infeasible
// problems and reached limits are results.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace slimpack {

/// What the user gave cannot be used. The message is one line that names the value, the rule that
/// it breaks and what to do; programs print it and exit with code 2.
class InvalidInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The input was good, but the run could not do its work: the disk is full, training has diverged.
/// The message is one line that names the cause and what to do; programs exit with code 1.
class RunFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The run was asked to stop (Ctrl-C, SIGTERM); programs exit with code 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken invariant: a bug of this project, never the user's fault.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The text with '?' for every control character: what messages quote may hold line ends.
[[nodiscard]] std::string one_line(std::string text);

/// Throws InvalidInput with a formatted message, as one line.
template <class... Args>
[[noreturn]] void invalid_input(fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidInput(one_line(fmt::format(format, std::forward<Args>(args)...)));
}

/// Throws RunFailed likewise.
template <class... Args>
[[noreturn]] void run_failed(fmt::format_string<Args...> format, Args&&... args) {
  throw RunFailed(one_line(fmt::format(format, std::forward<Args>(args)...)));
}

/// A failure as processes tell it to each other: never empty.
[[nodiscard]] std::string failure_text(const std::exception& failure);
/// Throws what was told by failure_text, and `addition` behind its message: InvalidInput again,
/// everything else as RunFailed.
[[noreturn]] void throw_failure(std::string_view text, std::string_view addition = "");

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& detail);

}  // namespace slimpack

/// Holds in every build: SLIMPACK_CHECK(condition) or SLIMPACK_CHECK(condition, "format", args…).
#define SLIMPACK_CHECK(condition, ...)                                                         \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::slimpack::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
