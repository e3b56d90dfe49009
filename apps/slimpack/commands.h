// The program's subcommands: each file adds one, with its options, help and action.
#pragma once

#include <CLI/CLI.hpp>

namespace slimpack {

void add_compare_command(CLI::App& app);  ///< compare
/// completion. `app` must have all other commands when the program parses, and outlive the parsing.
void add_completion_command(CLI::App& app);
void add_data_command(CLI::App& app);  ///< data build, data inspect
/// fit. Sets `answer` to 3 if the job does not fit. `answer` must outlive the parsing.
void add_fit_command(CLI::App& app, int& answer);
void add_layout_command(CLI::App& app);    ///< layout
void add_plan_command(CLI::App& app);      ///< plan
void add_report_command(CLI::App& app);    ///< report
void add_simulate_command(CLI::App& app);  ///< simulate

/// "slimpack 0.2.0 (commit 1a2b3c4), torch 2.13.0, no CUDA kernels"
[[nodiscard]] const char* version_text();

/// Parses the command line and runs the chosen subcommand. Returns the exit code: 0 for success; 1
/// for a failed run, for example if standard output is full or closed; 2 for bad input; 130 if
/// interrupted. For every code but 0 it has written one line to stderr.
int run_program(CLI::App& app, int argc, char** argv);

}  // namespace slimpack
