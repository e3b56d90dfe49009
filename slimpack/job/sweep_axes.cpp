#include "slimpack/job/sweep_axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "slimpack/base/error.h"
#include "slimpack/base/nearest.h"
#include "slimpack/spec/run_config_fields.h"

namespace slimpack {
namespace {

constexpr int kMostPacks = 1 << 20;
constexpr int kMostShort = 1 << 20;
constexpr std::array<std::string_view, 3> kSearchAxes{"packs", "taper", "order"};
/// Sections whose keys change nothing about a step.
constexpr std::array<std::string_view, 3> kOtherSections{"evaluation", "output", "checkpoint"};

struct AxisUnit {
  std::string_view name;
  std::string_view unit;
};
constexpr AxisUnit kUnits[] = {{"packs", "MicroPacks of a pass"},
                               {"taper", "share of a full MicroPack"},
                               {"order", "short sequences ahead"},
                               {"granularity", "tokens"},
                               {"context", "tokens"},
                               {"step_tokens", "tokens"},
                               {"pp", "pipeline ranks"},
                               {"dp", "replicas"},
                               {"tp", "tensor-parallel ranks"}};

bool in(const auto& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

std::string full_name(const ConfigField& field) {
  return fmt::format("{}.{}", field.section, field.key);
}

/// The fields with this key, or with this "section.key".
std::vector<const ConfigField*> fields_named(std::string_view name) {
  std::vector<const ConfigField*> found;
  for (const ConfigField& field : config_fields())
    if (name == field.key || name == full_name(field)) found.push_back(&field);
  return found;
}

[[noreturn]] void refuse_unknown(std::string_view name) {
  std::vector<std::string> texts(kSearchAxes.begin(), kSearchAxes.end());
  for (const ConfigField& field : config_fields()) {
    texts.emplace_back(field.key);
    texts.push_back(full_name(field));
  }
  const std::vector<std::string_view> known(texts.begin(), texts.end());
  if (!nearest(name, known).empty())
    invalid_input("--over: axis '{}' is unknown; {}", name, suggestion(name, known));
  invalid_input(
      "--over: axis '{}' is unknown; an axis is packs, taper, order or a key of the run file, "
      "such as granularity or parallel.pp",
      name);
}

/// The name without its section where no other section has such a key.
std::string shortest_name(const ConfigField& field) {
  return fields_named(field.key).size() == 1 ? std::string(field.key) : full_name(field);
}

std::string axis_name(std::string_view name) {
  if (in(kSearchAxes, name)) return std::string(name);
  const std::vector<const ConfigField*> fields = fields_named(name);
  if (fields.empty()) refuse_unknown(name);
  if (fields.size() > 1) {
    std::vector<std::string> names;
    for (const ConfigField* field : fields) names.push_back(full_name(*field));
    invalid_input("--over: '{}' is a key of several sections; name one of {}", name,
                  fmt::join(names, ", "));
  }
  if (in(kOtherSections, fields.front()->section))
    invalid_input("--over: {} changes nothing about a step; sweep another key",
                  full_name(*fields.front()));
  return shortest_name(*fields.front());
}

std::vector<std::string> values_of(std::string_view name, std::string_view text) {
  std::vector<std::string> values;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    std::string value(text.substr(0, comma));
    if (value.empty())
      invalid_input("--over {}: a value is empty; give values with commas between them", name);
    if (in(values, value)) invalid_input("--over {}: {} is there twice; give it once", name, value);
    values.push_back(std::move(value));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return values;
}

/// nullopt unless the whole text is one number.
template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

int integer(std::string_view name, std::string_view text, int least, int most) {
  const std::optional<int> value = parsed<int>(text);
  if (!value || *value < least || *value > most)
    invalid_input("--over {}: {} must be an integer from {} to {}", name, text, least, most);
  return *value;
}

double taper(std::string_view text) {
  const std::optional<double> value = parsed<double>(text);
  if (!value || !(*value > 0 && *value <= 1))
    invalid_input("--over taper: {} must be a number above 0 and at most 1", text);
  return *value;
}

}  // namespace

std::vector<SweepAxis> sweep_axes(std::span<const std::string> over) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : over) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      invalid_input("--over {}: must be AXIS=V1,V2,…, as in packs=64,128,256", text);
    SweepAxis axis;
    axis.name = axis_name(std::string_view(text).substr(0, equals));
    if (std::ranges::find(axes, axis.name, &SweepAxis::name) != axes.end())
      invalid_input("--over: {} is there twice; give all of its values at once", axis.name);
    axis.values = values_of(axis.name, std::string_view(text).substr(equals + 1));
    if (axis.name == "packs") axis.finer = Finer::kHigher;
    if (axis.name == "granularity") axis.finer = Finer::kLower;
    const auto* unit = std::ranges::find(kUnits, axis.name, &AxisUnit::name);
    if (unit != std::end(kUnits)) axis.unit = unit->unit;
    axes.push_back(std::move(axis));
  }
  return axes;
}

bool is_search_axis(const SweepAxis& axis) {
  return in(kSearchAxes, axis.name);
}

void keep_to(SearchOptions& search, const SweepAxis& axis, const std::string& value) {
  SLIMPACK_CHECK(is_search_axis(axis));
  search.baselines = false;
  if (axis.name == "packs")
    search.packs = integer(axis.name, value, 1, kMostPacks);
  else if (axis.name == "taper")
    search.taper = taper(value);
  else
    search.short_first = integer(axis.name, value, 0, kMostShort);
}

std::string override_of(const SweepAxis& axis, const std::string& value) {
  SLIMPACK_CHECK(!is_search_axis(axis));
  return fmt::format("{}={}", full_name(*fields_named(axis.name).front()), value);
}

}  // namespace slimpack
