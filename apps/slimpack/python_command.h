// Commands that the Python package does, because their libraries are Python's: 'data build' with a
// tokenizer, 'data inspect --show', 'draft' and 'generate'.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace slimpack {

/// A module of the package that does a command, and the words of the command before its arguments.
struct PythonCommand {
  std::string module;
  int words = 0;  ///< those of the command line, the program's name included
};

/// Names the commands, so that help lists them.
void add_python_commands(CLI::App& app);

/// The command of a command line, if it is one that Python does.
[[nodiscard]] std::optional<PythonCommand> python_command(int argc, char** argv);

/// The Python that this program was built with.
struct PythonOfBuild {
  const char* interpreter;  ///< what the package is compiled for
  const char* start;        ///< the program that runs a module of the package (start_python.py)
};
[[nodiscard]] PythonOfBuild python_of_build();

/// The words of a command line that runs a module of the package, before the module's arguments,
/// with the Python and the package of become_python.
[[nodiscard]] std::vector<std::string> python_words(const std::string& module);

/// Continues as a Python that runs the module with the arguments: that of $SLIMPACK_PYTHON (which
/// `python -m slimpack` sets), else that of the build, or python3 where that is gone. It takes the
/// package beside this program, or else its own. It ends with exit code 2 and one line where it has
/// none that fits. Returns 2, after one line on stderr, when it cannot be started. REQUIRES:
/// `command` is that of this command line.
[[nodiscard]] int become_python(const PythonCommand& command, int argc, char** argv);

}  // namespace slimpack
