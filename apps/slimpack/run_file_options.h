// The options of every command that works on a run: the run's file, and changes to its keys.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace slimpack {

struct RunFile {
  std::string config;                  ///< path of RUN.toml
  std::vector<std::string> overrides;  ///< "section.key=value", for read_run_config
};

/// Adds the argument RUN.toml and the repeatable option --set. `run` must outlive the parsing.
/// Returns the argument RUN.toml; it is optional unless the caller requires it.
CLI::Option* add_run_file(CLI::App& command, RunFile& run);

}  // namespace slimpack
