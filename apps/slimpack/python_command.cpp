#include "apps/slimpack/python_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/standard_streams.h"

namespace slimpack {
namespace {

/// Whether the words are this command of 'data' with one of the options, which begin so.
bool is_data_command(const std::vector<std::string_view>& words, std::string_view command,
                     const std::vector<std::string_view>& options) {
  if (words.size() < 3 || words[0] != "data" || words[1] != command) return false;
  return std::ranges::any_of(words, [&](std::string_view word) {
    return std::ranges::any_of(options, [&](auto option) { return word.starts_with(option); });
  });
}

std::string interpreter() {
  const char* const chosen = std::getenv("SLIMPACK_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const char* const of_build = python_of_build().interpreter;
  return ::access(of_build, X_OK) == 0 ? of_build : "python3";
}

/// The folder of the package beside a program in its build folder; empty where there is none.
std::string package_folder() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "python";
  std::error_code ignored;
  return std::filesystem::is_directory(folder / "slimpack", ignored) ? folder.string() : "";
}

}  // namespace

void add_python_commands(CLI::App& app) {
  app.add_subcommand("draft", "Train draft heads for speculative decoding (in Python)");
  app.add_subcommand("generate", "Go on from a prompt with a trained model (in Python)");
  app.add_subcommand("doctor", "Say what of SlimPack runs on this machine, and what is missing");
}

std::optional<PythonCommand> python_command(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  if (is_data_command(words, "build", {"--tokenizer", "--train-tokenizer", "--chat"}))
    return PythonCommand{"slimpack.data_build", 3};
  if (is_data_command(words, "inspect", {"--show"})) return PythonCommand{"slimpack.data_show", 3};
  if (!words.empty() && words[0] == "doctor") return PythonCommand{"slimpack.doctor", 2};
  if (!words.empty() && words[0] == "draft") return PythonCommand{"slimpack.draft.__main__", 2};
  if (!words.empty() && words[0] == "generate")
    return PythonCommand{"slimpack.generation.command", 2};
  return std::nullopt;
}

std::vector<std::string> python_words(const std::string& module) {
  return {interpreter(), "-c", python_of_build().start, package_folder(), module};
}

int become_python(const PythonCommand& command, int argc, char** argv) {
  open_standard_streams();
  std::vector<std::string> own = python_words(command.module);
  std::vector<char*> words;
  for (std::string& word : own) words.push_back(word.data());
  words.insert(words.end(), argv + command.words, argv + argc);
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  say(fmt::format("cannot start '{}': {}; set SLIMPACK_PYTHON to a Python that has slimpack",
                  words.front(), std::strerror(errno)));
  return 2;
}

}  // namespace slimpack
