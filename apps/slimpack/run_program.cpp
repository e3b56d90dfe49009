#include <algorithm>
#include <cctype>
#include <csignal>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/help_text.h"
#include "slimpack/base/error.h"
#include "slimpack/base/nearest.h"
#include "slimpack/base/standard_streams.h"
#include "slimpack/base/table.h"

namespace slimpack {

namespace {

/// "unknown option '--length'; did you mean "--lengths"?", if that is the mistake.
std::string unknown_option(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  const auto word = std::ranges::find_if(
      words, [](const std::string& text) { return text.starts_with("--") && text.size() > 2; });
  if (word == words.end()) return "";
  const std::string given = word->substr(0, word->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fmt::format("unknown option '{}'; {}", given, suggestion(given, known));
}

/// The remedy for numbers such as 128K.
std::string written_out(std::string_view mistake) {
  const bool suffix = mistake.size() > 1 &&
                      std::string_view("kKmMgG").find(mistake.back()) != std::string_view::npos;
  const bool digit =
      suffix && std::isdigit(static_cast<unsigned char>(mistake[mistake.size() - 2]));
  return digit ? "; write the number out, as 131072 for 128K" : "";
}

/// One line: the mistake, and the command whose help explains it.
std::string mistake_text(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* at = &app;
  std::string name = "slimpack";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
  std::string mistake = e.what();
  // The parser reports a missing command before it looks at an unknown word in its place.
  if (const auto words = at->remaining(); !commands.empty() && !words.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    const std::vector<std::string_view> known(names.begin(), names.end());
    mistake =
        fmt::format("unknown command '{}'; {}", words.front(), suggestion(words.front(), known));
  }
  if (const std::string option = unknown_option(*at); !option.empty()) mistake = option;
  if (e.get_name() == "ConversionError") mistake += written_out(mistake);
  std::ranges::replace(mistake, '\n', ' ');
  return fmt::format("{}; try '{} --help'", mistake, name);
}

/// The columns of help that goes to a file or a pipe, where people read it in a pager.
constexpr int kPlainColumns = 80;

/// Runs the chosen subcommand, or prints the help that was asked for.
void parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw;
    std::ostringstream help;
    app.exit(e, help);
    const int columns = output_columns(stdout);
    fmt::print("{}", folded_help(help.str(), columns == kAnyColumns ? kPlainColumns : columns));
  }
  flush_standard_output();
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv) {
  open_standard_streams();
  // Without SIGXFSZ a write beyond the limit of file sizes fails, and the failure is reported.
  // SIGPIPE keeps its default: a reader that has seen enough (slimpack … | head) ends the program
  // silently, as with other tools.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    parse_and_run(app, argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    say(mistake_text(app, e));
    return 2;
  } catch (const std::exception& e) {
    const int code = exit_code(e);
    say((code == 1 ? "failed: " : "") + message_of(e));
    return code;
  }
}

}  // namespace slimpack
