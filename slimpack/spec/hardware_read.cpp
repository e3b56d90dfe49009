// Reads [hardware] of a run configuration, and hardware files, which have the same keys at top
// level.
#include <fmt/format.h>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/nearest.h"
#include "slimpack/spec/config_values.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/run_config_fields.h"

namespace slimpack {

namespace {

constexpr std::int64_t kMostRanksPerNode = 4096;

HardwareSpec& hardware_of(RunConfig& config) {
  return config.hardware ? *config.hardware : config.hardware.emplace();
}

/// How the values of one type are read, printed and described.
struct Kind {
  std::string rule;
  std::function<void(HardwareSpec&, const ConfigEntry&)> assign;
  std::function<std::string(const HardwareSpec&)> print;
};

constexpr RealRule kFigure{"a number above 0, from 1e-9 to 1e30",
                           [](double x) { return x >= kLeastFigure && x <= kLargestFigure; }};
constexpr RealRule kFigureOrZero{"a number of 0 or more: 0, or from 1e-9 to 1e30",
                                 [](double x) { return x == 0 || kFigure.holds(x); }};

Kind kind(double HardwareSpec::*figure, bool may_be_zero) {
  const RealRule rule = may_be_zero ? kFigureOrZero : kFigure;
  return {std::string(rule.text),
          [=](HardwareSpec& h, const ConfigEntry& e) { h.*figure = read_real(e, rule); },
          [=](const HardwareSpec& h) { return fmt::format("{}", h.*figure); }};
}

Kind kind(Bytes HardwareSpec::*figure, bool) {
  return {std::string(kBytesRule),
          [=](HardwareSpec& h, const ConfigEntry& e) { h.*figure = read_bytes(e); },
          [=](const HardwareSpec& h) { return fmt::format("{}", (h.*figure).count()); }};
}

Kind kind(std::int32_t HardwareSpec::*figure, bool) {
  const std::string rule = fmt::format("an integer from 1 to {}", kMostRanksPerNode);
  return {rule,
          [=](HardwareSpec& h, const ConfigEntry& e) {
            h.*figure = static_cast<std::int32_t>(read_integer(e, 1, kMostRanksPerNode, rule));
          },
          [=](const HardwareSpec& h) { return fmt::format("{}", h.*figure); }};
}

Kind kind(bool HardwareSpec::*figure, bool) {
  const std::string rule = "true or false";
  return {rule,
          [=](HardwareSpec& h, const ConfigEntry& e) {
            const auto* flag = std::get_if<bool>(&e.value);
            if (flag == nullptr) refuse(e, rule);
            h.*figure = *flag;
          },
          [=](const HardwareSpec& h) { return fmt::format("{}", h.*figure); }};
}

Kind name_kind() {
  const std::string rule = "a text";
  return {rule,
          [=](HardwareSpec& h, const ConfigEntry& e) {
            const auto* text = std::get_if<std::string>(&e.value);
            if (text == nullptr) refuse(e, rule);
            h.name = *text;
          },
          [](const HardwareSpec& h) { return in_quotes(h.name); }};
}

ConfigField config_field(std::string_view name, std::string_view about, const Kind& kind) {
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    kind.assign(hardware_of(config), entry);
  };
  const auto print = [=](const RunConfig& config) {
    return fmt::format("{}{} = {}", config.hardware ? "" : "# ", name,
                       kind.print(config.hardware.value_or(HardwareSpec{})));
  };
  return {"hardware", name, about, kind.rule, assign, print};
}

/// The key "file". Assigning it reads the file at once; the configuration keeps only the figures.
ConfigField file_field() {
  const auto assign = [](RunConfig& config, const ConfigEntry& entry) {
    const std::filesystem::path file = read_shipped(entry, true, kShippedHardware);
    HardwareSpec& hardware = hardware_of(config);
    if (file.empty()) return;
    try {
      hardware = read_hardware(file);
    } catch (const InvalidInput& e) {
      invalid_input("{}: {}", entry.where, e.what());
    }
  };
  const auto print = [](const RunConfig& config) {
    return fmt::format("{}file = \"\"", config.hardware ? "" : "# ");
  };
  return {"hardware",
          "file",
          "a hardware file or a shipped name such as h100; keys beside it win over its figures",
          std::string(path_rule(true)),
          assign,
          print};
}

/// The field of this key. Throws InvalidInput if hardware files have no such key.
const ConfigField& find_figure(const TomlEntry& entry) {
  if (entry.is_table)
    invalid_input("{}: section {} is unknown; the keys of a hardware file stand at top level",
                  entry.place, in_quotes(entry.key));
  std::vector<std::string_view> known;
  for (const ConfigField& field : config_fields()) {
    if (field.section != "hardware" || field.key == "file") continue;
    if (field.key == entry.key) return field;
    known.push_back(field.key);
  }
  invalid_input("{}: key {} is unknown; {}", entry.place, in_quotes(entry.key),
                suggestion(entry.key, known));
}

}  // namespace

std::vector<ConfigField> hardware_config_fields() {
  std::vector<ConfigField> fields{file_field(), config_field("name", "for people", name_kind())};
  for (const HardwareField& field : hardware_fields()) {
    const Kind of_type = std::visit(
        [&](const auto figure) { return kind(figure, field.may_be_zero); }, field.figure);
    fields.push_back(config_field(field.name, field.about, of_type));
  }
  return fields;
}

HardwareSpec hardware_from_toml(std::string_view text, std::string_view origin) {
  RunConfig config;
  for (const TomlEntry& entry : parse_toml(text, origin)) {
    const ConfigField& field = find_figure(entry);
    field.assign(config,
                 {fmt::format("{}: {}", entry.place, entry.key), entry.shown, entry.value, {}});
  }
  return hardware_of(config);
}

HardwareSpec read_hardware(const std::filesystem::path& file) {
  constexpr std::uint64_t kMaxBytes = 1 << 16;
  return hardware_from_toml(read_file(file, "hardware file", kMaxBytes), file.string());
}

}  // namespace slimpack
