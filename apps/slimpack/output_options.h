// Where figures and reports of a command go.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <initializer_list>
#include <string>

namespace slimpack {

/// Adds --json. `file` must outlive the parsing.
void add_json(CLI::App& command, std::string& file);

/// The stream of the report for people: the standard output, unless one of the files is "-" and so
/// takes that; then the standard error.
[[nodiscard]] std::FILE* report_stream(std::initializer_list<std::string> files);

}  // namespace slimpack
