// The option --set, which every command with a run configuration takes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace slimpack {

/// `overrides` receives "section.key=value" strings and must outlive the parsing.
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

}  // namespace slimpack
