// Commands that benchmarks ask for input.
#pragma once

#include <string>
#include <vector>

namespace slimpack {

/// Lines that the shell command prints to its standard output, without their ends; none where it
/// cannot be started. Cost: the command's; waits for its end.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& command);

}  // namespace slimpack
