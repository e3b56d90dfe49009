#include "slimpack/base/human.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace slimpack {

namespace {

/// `value` in the largest unit in which it prints as at least 1. The first unit prints whole
/// numbers. A value that rounds up to `base` moves to the next unit: 1.0 MiB, not 1024 KiB.
std::string scaled(double value, double base, std::span<const char* const> units) {
  const char* const sign = value < 0 ? "-" : "";
  double magnitude = std::abs(value);
  std::size_t unit = 0;
  while (unit + 1 < units.size() && std::round(magnitude) >= base) {
    magnitude /= base;
    ++unit;
  }
  const bool decimal = unit > 0 && magnitude < 99.95;
  return fmt::format("{}{:.{}f}{}", sign, magnitude, decimal ? 1 : 0, units[unit]);
}

std::string two_units(std::int64_t big, const char* big_unit, std::int64_t small,
                      const char* small_unit) {
  return fmt::format("{} {} {:02} {}", big, big_unit, small, small_unit);
}

}  // namespace

std::string human_bytes(Bytes bytes) {
  constexpr std::array kUnits{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return scaled(static_cast<double>(bytes.count()), 1024, kUnits);
}

std::string human_count(double count) {
  constexpr std::array kUnits{"", " k", " M", " G", " T", " P", " E"};
  return scaled(count, 1000, kUnits);
}

std::string human_duration(Nanos duration) {
  const std::int64_t ns = duration.count();
  if (ns < 0) return fmt::format("-{}", human_duration(Nanos(ns == INT64_MIN ? INT64_MAX : -ns)));
  // Below 59.95 s one decimal does not round to a full minute.
  if (ns < 59'950'000'000) {
    constexpr std::array kUnits{" ns", " µs", " ms", " s"};
    return scaled(static_cast<double>(ns), 1000, kUnits);
  }
  const std::int64_t seconds = (ns + 500'000'000) / 1'000'000'000;
  if (seconds < 3600) return two_units(seconds / 60, "m", seconds % 60, "s");
  const std::int64_t minutes = (seconds + 30) / 60;
  if (minutes < 24 * 60) return two_units(minutes / 60, "h", minutes % 60, "m");
  const std::int64_t hours = (minutes + 30) / 60;
  return two_units(hours / 24, "d", hours % 24, "h");
}

std::string human_share(double share) {
  return fmt::format("{:.1f}%", share * 100);
}

std::string binary_count(std::int64_t count) {
  constexpr std::int64_t kKilo = 1024;
  if (count >= kKilo * kKilo * kKilo) return fmt::format("{}G", count / (kKilo * kKilo * kKilo));
  if (count >= kKilo * kKilo) return fmt::format("{}M", count / (kKilo * kKilo));
  if (count >= kKilo) return fmt::format("{}K", count / kKilo);
  return std::to_string(count);
}

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

}  // namespace slimpack
