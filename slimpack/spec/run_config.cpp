#define TOML_HEADER_ONLY 1  // the only file that includes toml++; no library to find at run time
#include "slimpack/spec/run_config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/nearest.h"
#include "slimpack/spec/run_config_fields.h"

namespace slimpack {

namespace {

namespace fs = std::filesystem;

/// In quotes, on one line, short enough for a message.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  const std::string cut(text.substr(0, kLongest));
  using nlohmann::json;
  return json(cut).dump(-1, ' ', false, json::error_handler_t::replace) +
         (text.size() > kLongest ? "…" : "");
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return line;
}

void set_value(ConfigEntry& entry, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    entry.value = *text;
    entry.shown = in_quotes(*text);
  } else if (const auto whole = node.value_exact<std::int64_t>()) {
    entry.value = *whole;
    entry.shown = fmt::format("{}", *whole);
  } else if (const auto real = node.value_exact<double>()) {
    entry.value = *real;
    entry.shown = fmt::format("{}", *real);
  } else if (const auto truth = node.value_exact<bool>()) {
    entry.value = *truth;
    entry.shown = *truth ? "true" : "false";
  } else {
    entry.value = OtherValue{};
    entry.shown = node.is_table() ? "a table" : node.is_array() ? "an array" : "a date or time";
  }
}

/// Throws for unknown names; `place` is "run.toml:7".
void check_section(std::string_view section, std::string_view place) {
  std::vector<std::string_view> known;
  for (const ConfigField& field : config_fields()) {
    if (field.section == section) return;
    if (known.empty() || known.back() != field.section) known.push_back(field.section);
  }
  invalid_input("{}: section {} is unknown; {}", place, in_quotes(section),
                suggestion(section, known));
}

const ConfigField& find_field(std::string_view section, std::string_view key,
                              std::string_view place) {
  check_section(section, place);
  std::vector<std::string_view> known;
  for (const ConfigField& field : config_fields()) {
    if (field.section != section) continue;
    if (field.key == key) return field;
    known.push_back(field.key);
  }
  invalid_input("{}: key {} is unknown in [{}]; {}", place, in_quotes(key), section,
                suggestion(key, known));
}

void assign(RunConfig& config, std::string_view section, std::string_view key,
            std::string_view place, const toml::node& value, const fs::path& base) {
  const ConfigField& field = find_field(section, key, place);
  ConfigEntry entry{fmt::format("{}: {}.{}", place, section, key), "", OtherValue{}, base};
  set_value(entry, value);
  field.assign(config, entry);
}

constexpr int kMostDots = 100;

/// The number of the first line with absurdly many dots, 0 if there is none: toml++ bounds nested
/// values but not dotted names (a.a.a…), and its recursion over them would exhaust the stack.
std::ptrdiff_t deep_line(std::string_view text) {
  std::ptrdiff_t line = 1;
  int dots = 0;
  for (const char c : text) {
    if (c == '.' && ++dots > kMostDots) return line;
    if (c != '\n') continue;
    ++line;
    dots = 0;
  }
  return 0;
}

toml::table parse_file(std::string_view text, std::string_view origin) {
  if (const std::ptrdiff_t line = deep_line(text); line != 0)
    invalid_input("{}:{}: more than {} dots on a line; shorten the line", origin, line, kMostDots);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    invalid_input("{}:{}: not valid TOML: {}", origin, e.source().begin.line,
                  one_line(e.description()));
  }
}

void apply_file(RunConfig& config, std::string_view text, std::string_view origin,
                const fs::path& base) {
  const toml::table file = parse_file(text, origin);
  const auto place_of = [&](const toml::node& node) {
    return fmt::format("{}:{}", origin, node.source().begin.line);
  };
  for (const auto& [section, node] : file) {
    const toml::table* const entries = node.as_table();
    if (entries == nullptr)
      invalid_input("{}: {} is not a section; keys stand below a [section] of their own",
                    place_of(node), in_quotes(section.str()));
    check_section(section.str(), place_of(node));
    // A section that is named without figures still asks for the default ones.
    if (section.str() == "hardware" && !config.hardware) config.hardware.emplace();
    for (const auto& [key, value] : *entries)
      assign(config, section.str(), key.str(), place_of(value), value, base);
  }
}

/// The value of an override: TOML, or the text itself where it is none. A text with more lines than
/// one value ("1\nother = 2") is taken as it stands.
toml::table parse_override_value(std::string_view text) {
  try {
    if (deep_line(text) != 0) return toml::table{{"value", std::string(text)}};
    toml::table table = toml::parse(fmt::format("value = {}", text));
    if (table.size() == 1 && table.contains("value")) return table;
  } catch (const toml::parse_error&) {
    // Not TOML: a bare word.
  }
  return toml::table{{"value", std::string(text)}};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

void apply_override(RunConfig& config, const std::string& text) {
  const std::string place = fmt::format("override {}", in_quotes(text));
  const std::size_t equals = text.find('=');
  const std::string_view name = trimmed(std::string_view(text).substr(0, equals));
  const std::size_t dot = name.find('.');
  if (equals == std::string::npos || dot == std::string_view::npos)
    invalid_input("{}: must be section.key=value, as in train.steps=100", place);
  const toml::table value = parse_override_value(std::string_view(text).substr(equals + 1));
  assign(config, name.substr(0, dot), name.substr(dot + 1), place, *value.get("value"), fs::path());
}

}  // namespace

std::string_view to_string(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::kSlimpack:
      return "slimpack";
    case PlannerKind::kPacked:
      return "packed";
  }
  SLIMPACK_CHECK(false, "planner kind {}", static_cast<int>(kind));
  return {};
}

RunConfig run_config_from_toml(std::string_view text, std::string_view origin,
                               std::span<const std::string> overrides, const fs::path& base) {
  RunConfig config;
  apply_file(config, text, origin, base);
  for (const std::string& override_text : overrides) apply_override(config, override_text);
  if (config.model.config.empty())
    invalid_input("{}: model.config is missing; add [model] config = \"config.json\"", origin);
  if (config.train.min_learning_rate > config.train.learning_rate)
    invalid_input("{}: train.min_learning_rate is {}, above train.learning_rate, {}; lower it",
                  origin, config.train.min_learning_rate, config.train.learning_rate);
  return config;
}

RunConfig read_run_config(const fs::path& file, std::span<const std::string> overrides) {
  constexpr std::uint64_t kMaxBytes = 1 << 16;
  return run_config_from_toml(read_file(file, "run configuration", kMaxBytes), file.string(),
                              overrides, file.parent_path());
}

std::string run_config_reference() {
  const RunConfig defaults;
  std::string text =
      "# Every key of a run configuration, with its default. Relative paths start at this file.\n";
  std::string_view section;
  for (const ConfigField& field : config_fields()) {
    const std::string line = field.print(defaults);
    if (field.section != section) {
      section = field.section;
      const bool absent = section == "hardware" && !defaults.hardware;
      text += fmt::format("\n{}[{}]\n", absent ? "# " : "", section);
    }
    text += fmt::format("{:<34}  # {} ({})\n", line, field.about, field.rule);
  }
  return text;
}

}  // namespace slimpack
