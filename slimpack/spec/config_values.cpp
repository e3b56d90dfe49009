#include "slimpack/spec/config_values.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

namespace fs = std::filesystem;

void refuse(const ConfigEntry& entry, std::string_view rule) {
  invalid_input("{} is {}, must be {}", entry.where, entry.shown, rule);
}

namespace {

/// "128K", "4M" or the like.
bool has_suffix(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  return digits != std::string_view::npos && digits > 0 && digits + 1 == text.size() &&
         std::string_view("kKmMgGbB").find(text.back()) != std::string_view::npos;
}

}  // namespace

double read_real(const ConfigEntry& entry, const RealRule& rule) {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (const auto* real = std::get_if<double>(&entry.value)) value = *real;
  if (const auto* whole = std::get_if<std::int64_t>(&entry.value))
    value = static_cast<double>(*whole);
  if (!std::isfinite(value) || !rule.holds(value)) refuse(entry, rule.text);
  return value;
}

std::vector<double> read_reals(const ConfigEntry& entry, const RealRule& rule) {
  const auto* const values = std::get_if<std::vector<double>>(&entry.value);
  if (values == nullptr) refuse(entry, fmt::format("an array, each element {}", rule.text));
  for (std::size_t i = 0; i < values->size(); ++i)
    if (!std::isfinite((*values)[i]) || !rule.holds((*values)[i]))
      invalid_input("{}[{}] is {}, must be {}", entry.where, i, (*values)[i], rule.text);
  return *values;
}

Bytes read_bytes(const ConfigEntry& entry) {
  Bytes bytes;
  if (const auto* count = std::get_if<std::int64_t>(&entry.value)) bytes = Bytes(*count);
  if (const auto* text = std::get_if<std::string>(&entry.value))
    bytes = parse_bytes(*text, entry.where);
  if (bytes <= Bytes(0)) refuse(entry, kBytesRule);
  return bytes;
}

std::int64_t read_integer(const ConfigEntry& entry, std::int64_t low, std::int64_t high,
                          std::string_view rule) {
  if (const auto* text = std::get_if<std::string>(&entry.value); text && has_suffix(*text))
    refuse(entry, fmt::format("{}, written out, as 1048576 for 1M", rule));
  const auto* value = std::get_if<std::int64_t>(&entry.value);
  if (value == nullptr || *value < low || *value > high) refuse(entry, rule);
  return *value;
}

std::string_view path_rule(bool may_be_empty) {
  return may_be_empty ? "a path, or \"\" for none" : "a path";
}

fs::path read_path(const ConfigEntry& entry, bool may_be_empty) {
  const auto* text = std::get_if<std::string>(&entry.value);
  const bool has_nul = text != nullptr && text->find('\0') != std::string::npos;
  if (text == nullptr || has_nul || (text->empty() && !may_be_empty))
    refuse(entry, path_rule(may_be_empty));
  const bool keep = text->empty() || entry.base.empty();
  return keep ? fs::path(*text) : (entry.base / *text).lexically_normal();
}

fs::path read_shipped(const ConfigEntry& entry, bool may_be_empty, const Shipped& kind) {
  const fs::path path = read_path(entry, may_be_empty);
  if (path.empty()) return path;
  try {
    return shipped_or(path, std::get<std::string>(entry.value), kind);
  } catch (const InvalidInput& e) {
    invalid_input("{}: {}", entry.where, e.what());
  }
}

namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"B", 1},
                                       {"kB", 1'000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"KiB", std::int64_t{1} << 10},
                                       {"MiB", std::int64_t{1} << 20},
                                       {"GiB", std::int64_t{1} << 30},
                                       {"TiB", std::int64_t{1} << 40}}};

constexpr std::string_view kBareUnits = "kKMGT";
constexpr double kTooManyBytes = 0x1.0p62;

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view what) {
  const auto refuse = [&](std::string_view why) {
    invalid_input("{} is \"{}\", {}; write bytes as 1048576, \"64MiB\" or \"1.5GB\"", what,
                  text.substr(0, 60), why);
  };
  const std::size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, length);
  std::string_view suffix = text.substr(length);
  suffix.remove_prefix(std::min(suffix.find_first_not_of(' '), suffix.size()));

  const Unit* unit = nullptr;
  for (const Unit& known : kUnits)
    if (known.name == suffix) unit = &known;
  if (unit == nullptr && suffix.size() == 1 && kBareUnits.find(suffix[0]) != kBareUnits.npos)
    refuse(fmt::format("whose unit may mean {0}B or {1}iB; say which", suffix == "k" ? "k" : suffix,
                       suffix == "k" ? "K" : suffix));
  if (unit == nullptr) refuse("which is not a number with a known unit");

  const char* const end = number.data() + number.size();
  if (number.find('.') == std::string_view::npos) {
    std::int64_t count = 0;  // integers stay exact
    std::int64_t bytes = 0;
    const auto [stop, error] = std::from_chars(number.data(), end, count);
    if (error == std::errc::invalid_argument) refuse("which is not a number");
    if (error != std::errc{} || __builtin_mul_overflow(count, unit->bytes, &bytes))
      refuse("which is too large");
    return Bytes(bytes);
  }
  double count = 0;
  const auto [stop, error] = std::from_chars(number.data(), end, count, std::chars_format::fixed);
  if (error != std::errc{} || stop != end) refuse("which is not a number");
  const double bytes = count * static_cast<double>(unit->bytes);
  if (bytes >= kTooManyBytes) refuse("which is too large");
  if (unit->bytes == 1 && bytes != std::floor(bytes))
    refuse("which is not a whole number of bytes");
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace slimpack
