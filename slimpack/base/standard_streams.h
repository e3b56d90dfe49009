// Standard input, output and error of the program.
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

/// One line on stderr that begins with the program's name. Nobody hears of it when that fails.
void say(const std::string& text);

}  // namespace slimpack
