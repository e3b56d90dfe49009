// What every command that works on a run takes: the run's file, and changes to keys of it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace slimpack {

struct RunFile {
  std::string config;                  ///< path of RUN.toml
  std::vector<std::string> overrides;  ///< "section.key=value", as read_run_config takes them
};

/// Adds the argument RUN.toml and the repeatable option --set. `run` must outlive the parsing.
/// Returns the argument, which is optional until its caller says otherwise.
CLI::Option* add_run_file(CLI::App& command, RunFile& run);

}  // namespace slimpack
