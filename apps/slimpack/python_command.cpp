#include "apps/slimpack/python_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "slimpack/base/standard_streams.h"

namespace slimpack {
namespace {

/// Whether the words are a 'data build' with a tokenizer.
bool builds_with_tokenizer(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || words[0] != "data" || words[1] != "build") return false;
  return std::ranges::any_of(words, [](std::string_view word) {
    return word.starts_with("--tokenizer") || word.starts_with("--train-tokenizer");
  });
}

}  // namespace

void add_python_commands(CLI::App& app) {
  app.add_subcommand("draft", "Train draft heads for speculative decoding (in Python)");
  app.add_subcommand("generate", "Go on from a prompt with a trained model (in Python)");
}

std::optional<PythonCommand> python_command(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  if (builds_with_tokenizer(words)) return PythonCommand{"slimpack.data_build", 3};
  if (!words.empty() && words[0] == "draft") return PythonCommand{"slimpack.draft", 2};
  if (!words.empty() && words[0] == "generate")
    return PythonCommand{"slimpack.generation.command", 2};
  return std::nullopt;
}

int become_python(const PythonCommand& command, int argc, char** argv) {
  const char* const chosen = std::getenv("SLIMPACK_PYTHON");
  std::string python = chosen == nullptr ? "python3" : chosen;
  std::string option = "-m";
  std::string module = command.module;
  std::vector<char*> words{python.data(), option.data(), module.data()};
  words.insert(words.end(), argv + command.words, argv + argc);
  words.push_back(nullptr);
  ::execvp(python.c_str(), words.data());
  say(fmt::format("cannot start '{}': {}; set SLIMPACK_PYTHON to a Python that has slimpack",
                  python, std::strerror(errno)));
  return 2;
}

}  // namespace slimpack
