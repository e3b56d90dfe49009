#include "slimpack/spec/source_tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/nearest.h"

namespace slimpack {
namespace {

constexpr std::string_view kNameRule = "a name of letters, digits, \"-\", \"_\" and \".\"";

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && std::ranges::all_of(text, allowed);
}

/// A key of a table, and how its value is stored in the table's `T`.
template <class T>
struct TableKey {
  std::string_view key;
  void (*assign)(T&, const ConfigEntry&);
};

template <class T>
void assign_key(T& made, const std::vector<TableKey<T>>& keys, const TomlEntry& entry,
                const std::string& table, const std::filesystem::path& base) {
  std::vector<std::string_view> known;
  for (const TableKey<T>& key : keys) {
    if (key.key == entry.key)
      return key.assign(made, {fmt::format("{}: {}.{}", entry.place, table, entry.key), entry.shown,
                               entry.value, base});
    known.push_back(key.key);
  }
  invalid_input("{}: key {} is unknown in {}; {}", entry.place, in_quotes(entry.key), table,
                suggestion(entry.key, known));
}

/// One `T` for each table; `name` is the array's, as "data.sources". Every table has all keys that
/// `required` names.
template <class T>
std::vector<T> read_tables(const ConfigEntry& entry, std::string_view name, std::string_view rule,
                           const std::vector<TableKey<T>>& keys,
                           const std::vector<std::string_view>& required) {
  if (entry.tables.empty()) refuse(entry, rule);
  std::vector<T> all;
  for (const TomlEntry& table : entry.tables) {
    const std::string shown = fmt::format("{}[{}]", name, all.size());
    T& made = all.emplace_back();
    for (const TomlEntry& value : table.entries) assign_key(made, keys, value, shown, entry.base);
    for (const std::string_view key : required)
      if (std::ranges::find(table.entries, key, &TomlEntry::key) == table.entries.end())
        invalid_input("{}: {} has no {}; give it one", table.place, shown, key);
  }
  return all;
}

std::string text_of(const DataSource& source) {
  const std::string share = source.weight ? fmt::format("weight = {}", *source.weight)
                                          : fmt::format("epochs = {}", source.epochs);
  return fmt::format("{{ prefix = \"{}\", {} }}", source.prefix.string(), share);
}

std::string text_of(const HeldOutSource& source) {
  return fmt::format("{{ name = \"{}\", prefix = \"{}\" }}", source.name, source.prefix.string());
}

/// "sources = […]", or the example where there are none.
template <class T>
std::string printed(const std::vector<T>& sources, std::string_view example) {
  if (sources.empty()) return std::string(example);
  std::vector<std::string> texts;
  for (const T& source : sources) texts.push_back(text_of(source));
  return fmt::format("sources = [{}]", fmt::join(texts, ", "));
}

void require_either(std::string_view section, bool prefix, bool sources, std::string_view origin) {
  if (prefix && sources)
    invalid_input("{}: {}.prefix and {}.sources are both set; keep one of them", origin, section,
                  section);
}

/// Throws if two sources have the same value of `member`.
template <class T, class Member>
void require_distinct(std::string_view name, std::string_view key, const std::vector<T>& sources,
                      Member T::*member, std::string_view origin) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (sources[i].*member == sources[j].*member)
        invalid_input("{}: {}[{}] and [{}] have the same {}, {}; each source has its own", origin,
                      name, j, i, key,
                      in_quotes(std::filesystem::path(sources[i].*member).string()));
}

void require_weights_of_all(const std::vector<DataSource>& sources, std::string_view origin) {
  for (std::size_t i = 1; i < sources.size(); ++i)
    if (sources[i].weight.has_value() != sources[0].weight.has_value())
      invalid_input(
          "{}: data.sources[{}] has a weight and data.sources[{}] has none; give every source a "
          "weight, or none: then epochs count",
          origin, sources[i].weight ? i : 0, sources[i].weight ? 0 : i);
}

}  // namespace

ConfigField data_sources_field() {
  const std::string rule =
      "tables [[data.sources]] of the run file: prefix, and weight or epochs, a number above 0";
  const auto assign = [rule](RunConfig& config, const ConfigEntry& entry) {
    using S = DataSource;
    config.data.sources = read_tables<S>(
        entry, "data.sources", rule,
        {{"prefix", [](S& s, const ConfigEntry& e) { s.prefix = read_path(e, false); }},
         {"weight", [](S& s, const ConfigEntry& e) { s.weight = read_real(e, kAboveZero); }},
         {"epochs", [](S& s, const ConfigEntry& e) { s.epochs = read_real(e, kAboveZero); }}},
        {"prefix"});
    for (std::size_t i = 0; i < entry.tables.size(); ++i)
      if (config.data.sources[i].weight &&
          std::ranges::count(entry.tables[i].entries, "epochs", &TomlEntry::key) > 0)
        invalid_input("{}: data.sources[{}] has a weight and epochs; keep one of them",
                      entry.tables[i].place, i);
  };
  const auto print = [](const RunConfig& config) {
    return printed(config.data.sources, "# sources = [{ prefix = \"a\", weight = 0.3 }]");
  };
  return {"data", "sources", "a mixture of datasets, in place of prefix", rule, assign, print};
}

ConfigField evaluation_sources_field() {
  const std::string rule = "tables [[evaluation.sources]] of the run file: name and prefix";
  const auto read_name = [](HeldOutSource& s, const ConfigEntry& e) {
    const auto* const text = std::get_if<std::string>(&e.value);
    if (text == nullptr || !is_name(*text)) refuse(e, kNameRule);
    s.name = *text;
  };
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    using S = HeldOutSource;
    config.evaluation.sources = read_tables<S>(
        entry, "evaluation.sources", rule,
        {{"name", read_name},
         {"prefix", [](S& s, const ConfigEntry& e) { s.prefix = read_path(e, false); }}},
        {"name", "prefix"});
  };
  const auto print = [](const RunConfig& config) {
    return printed(config.evaluation.sources, "# sources = [{ name = \"a\", prefix = \"a\" }]");
  };
  return {"evaluation", "sources", "several held-out datasets, in place of prefix",
          rule,         assign,    print};
}

void require_consistent_sources(const RunConfig& config, std::string_view origin) {
  const DataConfig& data = config.data;
  const EvaluationConfig& held_out = config.evaluation;
  require_either("data", !data.prefix.empty(), !data.sources.empty(), origin);
  require_either("evaluation", !held_out.prefix.empty(), !held_out.sources.empty(), origin);
  require_distinct("data.sources", "prefix", data.sources, &DataSource::prefix, origin);
  require_distinct("evaluation.sources", "name", held_out.sources, &HeldOutSource::name, origin);
  require_weights_of_all(data.sources, origin);
}

}  // namespace slimpack
