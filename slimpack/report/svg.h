// Parts that SVG pictures share: text, lines, and the vertical axis of a panel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack {

/// The text as an element of XML holds it: '<' and '&' are written as entities.
[[nodiscard]] std::string xml_text(std::string_view text);

/// A text at (x, y), with '<' and '&' escaped. `more`: attributes.
[[nodiscard]] std::string svg_text(double x, double y, std::string_view text,
                                   std::string_view more = "");

/// A straight line of this class.
[[nodiscard]] std::string svg_line(double x1, double y1, double x2, double y2,
                                   std::string_view kind);

/// A unit in which values are written: value ÷ size.
struct SvgUnit {
  double size = 1;
  std::string name;
};

/// The largest unit in which the values are at least 1: of nanoseconds, ns to s; of bytes, B to
/// GiB.
[[nodiscard]] SvgUnit unit_of_nanoseconds(std::span<const double> values);
[[nodiscard]] SvgUnit unit_of_bytes(std::span<const double> values);

/// How a scale is chosen.
enum class SvgRange : std::uint8_t {
  kFromZero,  ///< for shares
  kAsSpread,  ///< logarithmic where the largest value is many times the smallest
};

/// A range of round numbers around values.
class SvgScale {
 public:
  /// REQUIRES: values of 0 or more.
  SvgScale(std::span<const double> values, SvgRange range);

  [[nodiscard]] bool logarithmic() const { return logarithmic_; }

  [[nodiscard]] double low() const { return ticks_.front(); }
  [[nodiscard]] double high() const { return ticks_.back(); }
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }
  /// 0 at low(), 1 at high().
  [[nodiscard]] double place(double value) const;
  /// A tick's number. On a linear scale all have as many decimals as one of them needs.
  [[nodiscard]] std::string text(double tick) const;

 private:
  std::vector<double> ticks_;  ///< ascending, at least two
  int decimals_ = 0;
  bool logarithmic_ = false;
};

}  // namespace slimpack
