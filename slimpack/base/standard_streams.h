// Standard input, output and error of a program, and what it ends with.
#pragma once

#include <exception>
#include <string>

namespace slimpack {

/// Opens those that whoever started the program has closed; files opened later would take their
/// numbers, and what is printed would land in them. Reading and printing then fail; messages to
/// stderr go nowhere, as was wished.
void open_standard_streams();

/// Throws RunFailed unless everything printed so far has been written.
void flush_standard_output();

/// What has to be said of a failure: its message. That of printing does not say where it failed.
[[nodiscard]] std::string message_of(const std::exception& failure);

/// What a program exits with where a failure ends it: 2 for bad input, 130 when interrupted, 1 for
/// anything else, such as RunFailed.
[[nodiscard]] int exit_code(const std::exception& cause);

/// One line on stderr that begins with the program's name. Nobody hears of it when that fails.
void say(const std::string& text);

}  // namespace slimpack
