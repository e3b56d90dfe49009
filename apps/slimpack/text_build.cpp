#include "apps/slimpack/text_build.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/standard_streams.h"

namespace slimpack {

bool builds_with_tokenizer(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() < 3 || words[0] != "data" || words[1] != "build") return false;
  return std::ranges::any_of(words, [](std::string_view word) {
    return word.starts_with("--tokenizer") || word.starts_with("--train-tokenizer");
  });
}

int become_text_build(int argc, char** argv) {
  const char* const chosen = std::getenv("SLIMPACK_PYTHON");
  std::string python = chosen == nullptr ? "python3" : chosen;
  std::string option = "-m";
  std::string module = "slimpack.data_build";
  std::vector<char*> words{python.data(), option.data(), module.data()};
  words.insert(words.end(), argv + 3, argv + argc);
  words.push_back(nullptr);
  ::execvp(python.c_str(), words.data());
  say(fmt::format("cannot start '{}': {}; set SLIMPACK_PYTHON to a Python that has slimpack",
                  python, std::strerror(errno)));
  return 2;
}

}  // namespace slimpack
