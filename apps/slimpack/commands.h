// The program's subcommands: each file adds one, with its options, help and action.
#pragma once

#include <CLI/CLI.hpp>

namespace slimpack {

void add_compare_command(CLI::App& app);  ///< compare
void add_data_command(CLI::App& app);     ///< data build, data inspect
/// fit. `answer` receives 3 when the job does not fit, and must outlive the parsing.
void add_fit_command(CLI::App& app, int& answer);
void add_plan_command(CLI::App& app);      ///< plan
void add_simulate_command(CLI::App& app);  ///< simulate

/// "slimpack 0.1.0 (commit 1a2b3c4), torch 2.13.0"
[[nodiscard]] const char* version_text();

/// Parses the command line and runs the chosen subcommand. Returns the exit code: 0; 1 for a
/// failed run, such as one whose standard output is full or closed; 2 for bad input; 130 when
/// interrupted. Each but 0 comes after one line on stderr.
int run_program(CLI::App& app, int argc, char** argv);

}  // namespace slimpack
