#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/slimpack/commands.h"

namespace slimpack {
namespace {

/// A command or an option, as it is typed.
struct Word {
  std::string name;
  std::string about;  ///< one line
  bool takes_value = false;
};

/// Words that can follow some commands of a command line.
struct Followers {
  std::string path;  ///< the commands, such as "data build"; empty for the program itself
  std::vector<Word> commands;
  std::vector<Word> options;
};

Word word(const std::string& name, const std::string& about, bool takes_value = false) {
  return {name, about.substr(0, about.find('\n')), takes_value};
}

void collect(const CLI::App& app, const std::string& path, std::vector<Followers>& all) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  Followers& followers = all.emplace_back(Followers{path, {}, {}});
  for (const CLI::App* command : commands)
    followers.commands.push_back(word(command->get_name(), command->get_description()));
  for (const CLI::Option* option : app.get_options())
    if (!option->get_lnames().empty())
      followers.options.push_back(word("--" + option->get_lnames().front(),
                                       option->get_description(),
                                       option->get_items_expected_max() > 0));
  for (const CLI::App* command : commands)
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), all);
}

/// The text between single quotes of a shell; `escape` stands for a quote in it.
std::string quoted(const std::string& text, std::string_view escape) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(escape) : std::string(1, c);
  return out + "'";
}

/// The paths of all commands, each in quotes.
std::string quoted_paths(const std::vector<Followers>& all, std::string_view separator) {
  std::vector<std::string> paths;
  for (const Followers& followers : all)
    if (!followers.path.empty()) paths.push_back("'" + followers.path + "'");
  return fmt::format("{}", fmt::join(paths, separator));
}

/// Bash completes commands and options, and files wherever neither is begun.
std::string bash_script(const std::vector<Followers>& all) {
  std::string cases;
  for (const Followers& followers : all) {
    std::string known;
    for (const auto* words : {&followers.commands, &followers.options})
      for (const Word& word : *words) known += word.name + " ";
    cases += fmt::format("    '{}') words='{}' ;;\n", followers.path, known);
  }
  return fmt::format(R"sh(# Completion of slimpack in bash: eval "$(slimpack completion bash)"
_slimpack() {{
  local word words='' path='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${{path:+$path }}${{COMP_WORDS[i]}}"
    case "$word" in
      {}) path=$word ;;
    esac
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o bashdefault -o default -F _slimpack slimpack
)sh",
                     quoted_paths(all, " | "), cases);
}

/// "name:what it is for" as zsh's _describe reads it.
std::string described(const Word& word) {
  std::string about;
  for (const char c : word.about) about += c == ':' ? "\\:" : std::string(1, c);
  return quoted(word.name + ":" + about, "'\\''") + " ";
}

/// Zsh shows what each command and option is for.
std::string zsh_script(const std::vector<Followers>& all) {
  std::string cases;
  for (const Followers& followers : all) {
    std::string known;
    for (const auto* words : {&followers.commands, &followers.options})
      for (const Word& word : *words) known += described(word);
    cases += fmt::format("    '{}') known=({}) ;;\n", followers.path, known);
  }
  return fmt::format(
      R"sh(# Completion of slimpack in zsh, behind compinit: eval "$(slimpack completion zsh)"
_slimpack() {{
  local -a known paths
  local at='' word
  paths=({})
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    (( ${{paths[(Ie)${{at:+$at }}$word]}} )) && at="${{at:+$at }}$word"
  done
  case "$at" in
{}  esac
  _describe 'command or option' known
  _files
}}
compdef _slimpack slimpack
)sh",
      quoted_paths(all, " "), cases);
}

/// The words are behind these commands, and none of those that may follow is there.
std::string fish_condition(const Followers& followers) {
  if (followers.path.empty()) return "__fish_use_subcommand";
  std::string condition;
  std::istringstream path(followers.path);
  for (std::string command; path >> command;)
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + command);
  if (followers.commands.empty()) return condition;
  condition += "; and not __fish_seen_subcommand_from";
  for (const Word& command : followers.commands) condition += " " + command.name;
  return condition;
}

/// Fish completes by lines, each with the words behind which it holds.
std::string fish_script(const std::vector<Followers>& all) {
  std::string lines = "# Completion of slimpack in fish: slimpack completion fish | source\n";
  for (const Followers& followers : all) {
    const std::string begin =
        fmt::format("complete -c slimpack -n '{}'", fish_condition(followers));
    for (const Word& command : followers.commands)
      lines += fmt::format("{} -a {} -d {}\n", begin, command.name, quoted(command.about, "\\'"));
    for (const Word& option : followers.options)
      lines += fmt::format("{} -l {}{} -d {}\n", begin, option.name.substr(2),
                           option.takes_value ? " -r" : "", quoted(option.about, "\\'"));
  }
  return lines;
}

using Script = std::string (*)(const std::vector<Followers>&);

constexpr std::array<std::pair<const char*, Script>, 3> kShells{
    {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}}};

}  // namespace

void add_completion_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("completion", "Print the script by which a shell completes commands");
  command->require_subcommand(1);
  for (const auto& [shell, script] : kShells) {
    CLI::App* of_shell = command->add_subcommand(shell, fmt::format("For {}", shell));
    of_shell->callback([&app, script = script] {
      std::vector<Followers> all;
      collect(app, "", all);
      fmt::print("{}", script(all));
    });
  }
  command->footer(
      "Example, in ~/.bashrc, in ~/.zshrc behind compinit, in ~/.config/fish/config.fish:\n"
      "  eval \"$(slimpack completion bash)\"\n"
      "  eval \"$(slimpack completion zsh)\"\n"
      "  slimpack completion fish | source");
}

}  // namespace slimpack
