#include <fmt/format.h>

#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/slimpack/commands.h"

namespace slimpack {
namespace {

/// Commands and options that can follow some words of a command line.
struct CommandWords {
  std::string path;  ///< the commands, such as "data build"; empty for the program itself
  std::vector<const CLI::App*> commands;
  std::vector<const CLI::Option*> options;
};

void collect(const CLI::App& app, const std::string& path, std::vector<CommandWords>& all) {
  CommandWords words{path, {}, {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    words.commands.push_back(command);
  for (const CLI::Option* option : app.get_options())
    if (!option->get_lnames().empty()) words.options.push_back(option);
  all.push_back(words);
  for (const CLI::App* command : words.commands)
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), all);
}

std::string long_name(const CLI::Option& option) {
  return "--" + option.get_lnames().front();
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

/// The first sentence's text between single quotes of a shell; `escape` stands for a quote in it.
std::string quoted(const std::string& text, std::string_view escape) {
  std::string out = "'";
  for (const char c : text.substr(0, text.find('\n')))
    out += c == '\'' ? std::string(escape) : std::string(1, c);
  return out + "'";
}

/// Bash completes commands and options, and files wherever neither is begun.
std::string bash_script(const std::vector<CommandWords>& all) {
  std::string cases;
  std::string paths;
  for (const CommandWords& words : all) {
    std::string known;
    for (const CLI::App* command : words.commands) known += command->get_name() + " ";
    for (const CLI::Option* option : words.options) known += long_name(*option) + " ";
    cases += fmt::format("    '{}') words='{}' ;;\n", words.path, known);
    if (!words.path.empty()) paths += (paths.empty() ? "'" : " | '") + words.path + "'";
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
                     paths, cases);
}

/// "name:what it is for" as zsh's _describe reads it.
std::string described(const std::string& name, const std::string& about) {
  std::string text;
  for (const char c : about.substr(0, about.find('\n'))) {
    if (c == ':') text += '\\';
    text += c;
  }
  return quoted(name + ":" + text, "'\\''") + " ";
}

/// Zsh shows what each command and option is for.
std::string zsh_script(const std::vector<CommandWords>& all) {
  std::string cases;
  std::string paths;
  for (const CommandWords& words : all) {
    std::string known;
    for (const CLI::App* command : words.commands)
      known += described(command->get_name(), command->get_description());
    for (const CLI::Option* option : words.options)
      known += described(long_name(*option), option->get_description());
    cases += fmt::format("    '{}') known=({}) ;;\n", words.path, known);
    if (!words.path.empty()) paths += fmt::format("'{}' ", words.path);
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
      paths, cases);
}

/// The words are behind these commands, and none of those that may follow is there.
std::string fish_condition(const CommandWords& words) {
  if (words.path.empty()) return "__fish_use_subcommand";
  std::string condition;
  std::istringstream path(words.path);
  for (std::string command; path >> command;)
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + command);
  if (words.commands.empty()) return condition;
  condition += "; and not __fish_seen_subcommand_from";
  for (const CLI::App* command : words.commands) condition += " " + command->get_name();
  return condition;
}

/// Fish completes by lines, each with the words behind which it holds.
std::string fish_script(const std::vector<CommandWords>& all) {
  std::string lines = "# Completion of slimpack in fish: slimpack completion fish | source\n";
  for (const CommandWords& words : all) {
    const std::string condition = fish_condition(words);
    for (const CLI::App* command : words.commands)
      lines += fmt::format("complete -c slimpack -n '{}' -a {} -d {}\n", condition,
                           command->get_name(), quoted(command->get_description(), "\\'"));
    for (const CLI::Option* option : words.options)
      lines += fmt::format("complete -c slimpack -n '{}' -l {}{} -d {}\n", condition,
                           option->get_lnames().front(), takes_value(*option) ? " -r" : "",
                           quoted(option->get_description(), "\\'"));
  }
  return lines;
}

using Script = std::string (*)(const std::vector<CommandWords>&);

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
      std::vector<CommandWords> all;
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
