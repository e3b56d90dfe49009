// A program's standard input, output and error, and its exit code.
#pragma once

#include <exception>
#include <string>

namespace slimpack {

/// Opens the standard streams that are closed at the program's start. Otherwise files opened later
/// would take their numbers, and printed text would land in those files. Reading from an opened
/// stdin fails, printing to an opened stdout fails, and messages to an opened stderr are dropped.
void open_standard_streams();

/// Throws RunFailed unless everything printed so far has been written.
void flush_standard_output();

/// The message to print for a failure. It is the failure's own message, except that a failure to
/// print becomes "cannot write to standard output: …".
[[nodiscard]] std::string message_of(const std::exception& failure);

/// The exit code of a program that a failure ends: 2 for bad input, 130 when interrupted, 1 for
/// anything else, such as RunFailed.
[[nodiscard]] int exit_code(const std::exception& cause);

/// Writes the text to stderr as one line that begins with the program's name. Ignores errors.
void say(const std::string& text);

}  // namespace slimpack
