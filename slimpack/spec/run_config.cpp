#include "slimpack/spec/run_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/nearest.h"
#include "slimpack/spec/config_values.h"
#include "slimpack/spec/run_config_fields.h"
#include "slimpack/spec/source_tables.h"

namespace slimpack {

namespace {

namespace fs = std::filesystem;

/// Keys by which other systems name the ranks that experts are spread over.
constexpr std::array<std::string_view, 3> kExpertKeys = {"ep", "expert_parallel",
                                                         "expert_model_parallel_size"};

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
  if (section == "parallel" && std::ranges::find(kExpertKeys, key) != kExpertKeys.end())
    invalid_input(
        "{}: key {} is unknown in [parallel]: experts are spread over the tensor-parallel ranks of "
        "a stage, never over replicas; set parallel.tp to so many ranks, and leave it out",
        place, in_quotes(key));
  invalid_input("{}: key {} is unknown in [{}]; {}", place, in_quotes(key), section,
                suggestion(key, known));
}

/// Assigns the value of `entry`. Errors name the entry's place.
void assign(RunConfig& config, std::string_view section, std::string_view key,
            const TomlEntry& entry, const fs::path& base) {
  const ConfigField& field = find_field(section, key, entry.place);
  field.assign(config,
               {fmt::format("{}: {}.{}", entry.place, section, key), entry.shown, entry.value, base,
                entry.is_table ? std::vector<TomlEntry>() : entry.entries});
}

/// A "section.key=value" from the command line.
struct Override {
  std::string section, key;
  TomlEntry entry;
};

/// Assigns the file's values, except for overridden keys. Those are not even read: a path in the
/// file may not exist. An overridden prefix replaces the file's sources, too.
void apply_file(RunConfig& config, std::string_view text, std::string_view origin,
                const fs::path& base, std::span<const Override> overrides) {
  const auto overridden = [&](const std::string& section, const std::string& key) {
    return std::ranges::any_of(overrides, [&](const Override& o) {
      return o.section == section && (o.key == key || (o.key == "prefix" && key == "sources"));
    });
  };
  for (TomlEntry& section : parse_toml(text, origin)) {
    if (!section.is_table)
      invalid_input("{}: {} is not a section; keys stand below a [section] of their own",
                    section.place, in_quotes(section.key));
    check_section(section.key, section.place);
    if (section.key == "hardware") {
      // An empty [hardware] asks for the default figures. Figures beside "file" win over the
      // file's, so "file" is assigned first.
      if (!config.hardware) config.hardware.emplace();
      std::stable_partition(section.entries.begin(), section.entries.end(),
                            [](const TomlEntry& e) { return e.key == "file"; });
    }
    for (const TomlEntry& entry : section.entries)
      if (!overridden(section.key, entry.key)) assign(config, section.key, entry.key, entry, base);
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Override parse_override(const std::string& text) {
  const std::string place = fmt::format("override {}", in_quotes(text));
  const std::size_t equals = text.find('=');
  const std::string_view name = trimmed(std::string_view(text).substr(0, equals));
  const std::size_t dot = name.find('.');
  if (equals == std::string::npos || dot == std::string_view::npos)
    invalid_input("{}: must be section.key=value, as in train.steps=100", place);
  TomlEntry entry = parse_toml_value(std::string_view(text).substr(equals + 1));
  entry.place = place;
  return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1)), std::move(entry)};
}

}  // namespace

std::string_view to_string(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::kSlimpack:
      return "slimpack";
    case PlannerKind::kPacked:
      return "packed";
    case PlannerKind::kSlimpipe:
      return "slimpipe";
    case PlannerKind::kZeppelin:
      return "zeppelin";
    case PlannerKind::kContextParallel:
      return "context-parallel";
    case PlannerKind::kTokenBalanced:
      return "token-balanced";
  }
  SLIMPACK_CHECK(false, "planner kind {}", static_cast<int>(kind));
  return {};
}

std::string_view to_string(SolverKind kind) {
  switch (kind) {
    case SolverKind::kAuto:
      return "auto";
    case SolverKind::kFluid:
      return "fluid";
    case SolverKind::kMilp:
      return "milp";
  }
  SLIMPACK_CHECK(false, "solver kind {}", static_cast<int>(kind));
  return {};
}

std::string_view to_string(BackwardKind kind) {
  return kind == BackwardKind::kWhole ? "whole" : "split";
}

std::string_view to_string(CutsKind kind) {
  return kind == CutsKind::kAny ? "any" : "symmetric";
}

std::string_view to_string(ClockKind kind) {
  return kind == ClockKind::kWall ? "wall" : "virtual";
}

std::string_view to_string(LossKind kind) {
  return kind == LossKind::kToken ? "token" : "document";
}

namespace {

/// A value that no configuration can give: read_real refuses it.
constexpr double kNotGiven = std::numeric_limits<double>::quiet_NaN();

/// Without a minimum the rate falls to a tenth.
void settle_learning_rates(TrainConfig& train, std::string_view origin) {
  const TrainConfig defaults;
  if (std::isnan(train.min_learning_rate))
    train.min_learning_rate = train.learning_rate == defaults.learning_rate
                                  ? defaults.min_learning_rate
                                  : train.learning_rate / 10;
  if (train.min_learning_rate > train.learning_rate)
    invalid_input(
        "{}: train.min_learning_rate is {}, above train.learning_rate, {}; lower it, or leave it "
        "out: then it is a tenth",
        origin, train.min_learning_rate, train.learning_rate);
}

void require_ranks_for_stages(const ParallelConfig& p, std::string_view origin) {
  if (p.pp == 1 && p.stages_per_rank > 1)
    invalid_input(
        "{}: parallel.stages_per_rank is {}, but pp is 1: a single rank has one stage; set it to "
        "1, or raise pp",
        origin, p.stages_per_rank);
  const bool turns = p.placement == PlacementStyle::kV;
  if (turns && (p.pp == 1 || p.stages_per_rank != 2 || p.chooses_stages))
    invalid_input(
        "{}: parallel.placement is \"v\", which puts two stages on each of several ranks; set "
        "parallel.stages_per_rank to 2 and pp above 1, or placement to \"loop\"",
        origin);
  if (turns && (p.spread_vocabulary || p.chooses_vocabulary || p.exchange_context))
    invalid_input(
        "{}: parallel.placement is \"v\", where no vocabulary is spread and no attention "
        "exchanged; set parallel.spread_vocabulary and exchange_context to false, or placement to "
        "\"loop\"",
        origin);
  if (p.pp == 1 && p.spread_vocabulary)
    invalid_input(
        "{}: parallel.spread_vocabulary is true, but pp is 1: there is one rank to spread it over; "
        "set it to false, or raise pp",
        origin);
  if (p.pp == 1 && p.exchange_context)
    invalid_input(
        "{}: parallel.exchange_context is true, but pp is 1: there is no rank to exchange "
        "attention "
        "with; set it to false, or raise pp",
        origin);
}

void require_speed_of_each_rank(const ParallelConfig& p, std::string_view origin) {
  if (!p.speed.empty() && std::ssize(p.speed) != p.ranks())
    invalid_input(
        "{}: parallel.speed has {} entries, but pp × dp × tp is {} × {} × {} = {} ranks; give one "
        "for each, or [] where all are as fast as the costs say",
        origin, p.speed.size(), p.pp, p.dp, p.tp, p.ranks());
}

}  // namespace

RunConfig run_config_from_toml(std::string_view text, std::string_view origin,
                               std::span<const std::string> overrides, const fs::path& base) {
  RunConfig config;
  config.train.min_learning_rate = kNotGiven;
  std::vector<Override> parsed;
  for (const std::string& override_text : overrides)
    parsed.push_back(parse_override(override_text));
  apply_file(config, text, origin, base, parsed);
  for (const Override& o : parsed) {
    assign(config, o.section, o.key, o.entry, fs::path());
    config.data.step_tokens_asked |= o.section == "data" && o.key == "step_tokens";
  }
  if (config.model.config.empty())
    invalid_input("{}: model.config is missing; add [model] config = \"config.json\"", origin);
  settle_learning_rates(config.train, origin);
  require_ranks_for_stages(config.parallel, origin);
  require_speed_of_each_rank(config.parallel, origin);
  if (config.plan.recompute == Recompute::kOffload && config.train.device == DeviceKind::kCpu)
    invalid_input(
        "{}: plan.recompute is \"offload\" and train.device is \"cpu\", where rows lie in host "
        "memory already; set train.device to \"cuda\" or plan.recompute to another policy",
        origin);
  require_consistent_sources(config, origin);
  if (config.evaluation.every > 0 && config.evaluation.datasets().empty())
    invalid_input(
        "{}: evaluation.every is {} and evaluation.prefix is not set; name a held-out dataset, or "
        "set evaluation.every to 0",
        origin, config.evaluation.every);
  return config;
}

RunConfig read_run_config(const fs::path& file, std::span<const std::string> overrides) {
  constexpr std::uint64_t kMaxBytes = 1 << 16;
  return run_config_from_toml(read_file(file, "run configuration", kMaxBytes), file.string(),
                              overrides, file.parent_path());
}

namespace {

/// A line for every key, below the headings of their sections, with `gap` before each heading.
std::string in_sections(const RunConfig& config, std::string_view gap,
                        const std::function<std::string(const ConfigField&)>& line) {
  std::string text;
  std::string_view section;
  for (const ConfigField& field : config_fields()) {
    if (field.section != section) {
      section = field.section;
      const bool absent = section == "hardware" && !config.hardware;
      text += fmt::format("{}{}[{}]\n", gap, absent ? "# " : "", section);
    }
    text += line(field) + "\n";
  }
  return text;
}

}  // namespace

std::string run_config_to_toml(const RunConfig& config) {
  return in_sections(config, "", [&](const ConfigField& field) { return field.print(config); });
}

std::string run_config_reference() {
  const RunConfig defaults;
  return "# Every key of a run configuration, with its default. Relative paths start at this "
         "file.\n" +
         in_sections(defaults, "\n", [&](const ConfigField& field) {
           return fmt::format("{:<34}  # {} ({})", field.print(defaults), field.about, field.rule);
         });
}

}  // namespace slimpack
