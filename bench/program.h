// The frame that the benchmarks' programs share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace slimpack {

/// Parses the command line and runs the benchmark. Returns the exit code: 0; 2 for bad input, 1 for
/// any other failure, after one line on stderr that begins with the app's name.
int run_benchmark(CLI::App& app, int argc, char** argv, const std::function<void()>& run);

/// Lines that the shell command prints to its standard output, without their ends; none where it
/// cannot be started. Cost: the command's; waits for its end.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& command);

}  // namespace slimpack
