#include "slimpack/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>

namespace slimpack {

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string svg_text(double x, double y, std::string_view text, std::string_view more) {
  return fmt::format("<text x=\"{:.5g}\" y=\"{:.5g}\" {}>{}</text>\n", x, y, more, xml_text(text));
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line x1=\"{:.5g}\" y1=\"{:.5g}\" x2=\"{:.5g}\" y2=\"{:.5g}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, kind);
}

namespace {

/// An axis has this many steps between ticks, or one or two more.
constexpr double kSteps = 4;
/// Values whose smallest is below this share of the largest begin at 0.
constexpr double kWide = 0.6;
/// Values of which one is so many times another are drawn on a logarithmic scale.
constexpr double kManyTimes = 5;
constexpr std::size_t kMostTicks = 8;
/// Equal values get a range of this share of theirs, or of this size.
constexpr double kRoom = 0.1, kLeast = 1e-3;
constexpr double kRounding = 1e-9;

SvgUnit largest_unit(std::span<const double> values, std::vector<SvgUnit> units) {
  const double most = values.empty() ? 0 : std::ranges::max(values);
  const auto fits = std::find_if(units.rbegin(), units.rend() - 1,
                                 [&](const SvgUnit& unit) { return most >= unit.size; });
  return *fits;
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - kRounding)) return factor * power;
  return 10 * power;
}

/// Powers of ten times the factors, from the last that is no more than `low` to the first that is
/// no less than `high`.
std::vector<double> ticks_between(double low, double high, std::initializer_list<double> factors) {
  std::vector<double> ticks;
  for (double power = std::pow(10, std::floor(std::log10(low)));; power *= 10)
    for (const double factor : factors) {
      const double tick = factor * power;
      if (tick <= low * (1 + kRounding)) ticks.clear();
      ticks.push_back(tick);
      if (tick >= high * (1 - kRounding)) return ticks;
    }
}

/// The decimals that a round number needs.
int decimals_of(double number) {
  return std::max(0, static_cast<int>(-std::floor(std::log10(number) + kRounding)));
}

}  // namespace

SvgUnit unit_of_nanoseconds(std::span<const double> values) {
  return largest_unit(values, {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}});
}

SvgUnit unit_of_bytes(std::span<const double> values) {
  return largest_unit(values, {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}});
}

SvgScale::SvgScale(std::span<const double> values, SvgRange range) {
  double low = values.empty() ? 0 : std::ranges::min(values);
  double high = values.empty() ? 1 : std::ranges::max(values);
  logarithmic_ = range == SvgRange::kAsSpread && low > 0 && high > kManyTimes * low;
  if (logarithmic_) {
    ticks_ = ticks_between(low, high, {1, 2, 5});
    if (ticks_.size() > kMostTicks) ticks_ = ticks_between(low, high, {1});
    return;
  }
  if (range == SvgRange::kFromZero || low < kWide * high) low = 0;
  if (high <= low) high = low + std::max(low * kRoom, kLeast);
  const double step = round_step((high - low) / kSteps);
  const double first = std::floor(low / step + kRounding),
               last = std::ceil(high / step - kRounding);
  for (double tick = first; tick <= last; ++tick) ticks_.push_back(tick * step);
  decimals_ = decimals_of(step);
}

double SvgScale::place(double value) const {
  return logarithmic_ ? std::log(value / low()) / std::log(high() / low())
                      : (value - low()) / (high() - low());
}

std::string SvgScale::text(double tick) const {
  if (logarithmic_) return fmt::format("{:.10g}", tick);
  return fmt::format("{:.{}f}", tick, decimals_);
}

}  // namespace slimpack
