// Four panels in two rows. Points of the first axis stand at equal distances in the order of its
// values, whatever these are: numbers that double, and words.
#include "slimpack/report/sweep_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/table.h"
#include "slimpack/report/svg.h"

namespace slimpack {
namespace {

constexpr double kWidth = 760, kLeft = 58, kTop = 108;
constexpr double kPlotWidth = 300, kPlotHeight = 150;
constexpr double kColumnWidth = 374, kRowHeight = 222;
constexpr double kMargin = 16;      ///< left and right of the points
constexpr double kCharacter = 6.4;  ///< the width of a letter of 12 px, roughly
constexpr std::size_t kMostLabels = 10;
constexpr std::array kColours{"#4e79a7", "#e8832a", "#3f9b5f", "#d8504d",
                              "#a06bb0", "#4fa6a3", "#9c755f", "#8a8f98"};

constexpr const char* kStyle = R"(<style>
.sweep { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; }
.sweep .page { fill: #ffffff; }
.sweep text { fill: #1f2328; }
.sweep .title { font-size: 15px; font-weight: 600; }
.sweep .panel { font-size: 13px; font-weight: 600; }
.sweep .quiet { fill: #59636e; }
.sweep .end { text-anchor: end; }
.sweep .middle { text-anchor: middle; }
.sweep .grid { stroke: #dde2e7; stroke-width: 1; }
.sweep .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.sweep .predicted { stroke-width: 1.4; stroke-dasharray: 4 3; }
.sweep .ring { fill: none; stroke: #1f2328; stroke-width: 1.6; }
@media (prefers-color-scheme: dark) {
  .sweep .page { fill: #16191d; }
  .sweep text { fill: #e6e9ec; }
  .sweep .quiet { fill: #a2abb4; }
  .sweep .grid { stroke: #333a42; }
  .sweep .ring { stroke: #e6e9ec; }
}
</style>
)";

/// One panel of the picture: its title, its values and their scale.
struct Panel {
  std::string title;
  std::function<double(const SweepFigures&, const SweepTimes&)> value;
  std::function<SvgUnit(std::span<const double>)> unit;
  SvgRange range = SvgRange::kAsSpread;
  bool once = false;  ///< measured and predicted are the same
};

SvgUnit percent(std::span<const double> /*values*/) {
  return {0.01, "%"};
}

SvgUnit percent_of_busy(std::span<const double> /*values*/) {
  return {0.01, "% of busy time"};
}

std::vector<Panel> panels() {
  return {{"Step time",
           [](const auto& /*figures*/, const SweepTimes& t) {
             return static_cast<double>(t.makespan.count());
           },
           unit_of_nanoseconds},
          {"Bubble", [](const auto& /*figures*/, const SweepTimes& t) { return t.bubble; }, percent,
           SvgRange::kFromZero},
          {"Overhead", [](const SweepFigures& f, const auto& /*times*/) { return f.overhead; },
           percent_of_busy, SvgRange::kFromZero, true},
          {"Peak activations of a rank",
           [](const auto& /*figures*/, const SweepTimes& t) {
             return static_cast<double>(t.peak.count());
           },
           unit_of_bytes}};
}

double rounded(double pixels) {
  return std::round(pixels * 10) / 10;
}

const char* colour(std::size_t line) {
  return kColours[line % kColours.size()];
}

/// Never ends within a code point.
std::string shortened(const std::string& text, std::size_t letters) {
  if (text_width(text) <= letters) return text;
  std::size_t end = letters - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

class Picture {
 public:
  explicit Picture(const SweepReport& report) : report_(report), best_(report.best()) {
    const SweepPoint& shown = report.points[best_.value_or(0)];
    lines_.resize(report.axes.size() > 1 ? report.axes[1].values.size() : 1);
    for (auto& line : lines_) line.resize(report.axes[0].values.size());
    for (const SweepPoint& point : report.points) {
      bool same = true;
      for (std::size_t a = 2; a < point.at.size(); ++a) same = same && point.at[a] == shown.at[a];
      if (same) lines_[point.at.size() > 1 ? point.at[1] : 0][point.at[0]] = &point;
    }
  }

  [[nodiscard]] std::string text(std::string_view title) const {
    const double height = kTop + 2 * kRowHeight - 16;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" class=\"sweep\" role=\"img\">\n",
        kWidth, height);
    out += kStyle;
    out +=
        fmt::format("<rect class=\"page\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n", kWidth, height);
    out += svg_text(16, 28, title, "class=\"title\"");
    out += svg_text(16, 48, subtitle(), "class=\"quiet\"") + legend();
    const std::vector<Panel> all = panels();
    for (std::size_t p = 0; p < all.size(); ++p)
      out += panel(all[p], kLeft + kColumnWidth * static_cast<double>(p % 2),
                   kTop + kRowHeight * static_cast<double>(p / 2));
    return out + "</svg>\n";
  }

 private:
  [[nodiscard]] std::string subtitle() const {
    std::vector<std::string> parts;
    if (report_.measured()) parts.emplace_back("solid: measured, dashed: predicted");
    if (best_)
      parts.emplace_back(report_.ranks_differ() ? "ring: most tokens per second of a rank"
                                                : "ring: shortest step");
    if (std::ranges::any_of(report_.points, [](const SweepPoint& p) { return !p.figures; }))
      parts.emplace_back("×: does not fit");
    for (std::size_t a = 2; a < report_.axes.size(); ++a)
      parts.push_back(fmt::format("{} {}", report_.axes[a].name,
                                  report_.value(report_.points[best_.value_or(0)], a)));
    return fmt::format("{}", fmt::join(parts, "; "));
  }

  /// Names the lines, if there are several.
  [[nodiscard]] std::string legend() const {
    if (lines_.size() < 2) return "";
    std::string out = svg_text(16, 70, report_.axes[1].name, "class=\"quiet\"");
    double x = 28 + kCharacter * static_cast<double>(report_.axes[1].name.size());
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      const std::string name = shortened(report_.axes[1].values[line], 16);
      out += fmt::format("<circle cx=\"{}\" cy=\"66\" r=\"4.5\" fill=\"{}\"/>\n", rounded(x),
                         colour(line));
      out += svg_text(rounded(x + 9), 70, name);
      x += 26 + kCharacter * static_cast<double>(text_width(name));
    }
    return out;
  }

  [[nodiscard]] std::string panel(const Panel& panel, double left, double top) const {
    std::vector<double> values;
    for (const auto& line : lines_)
      for (const SweepPoint* point : line) {
        if (point == nullptr || !point->figures) continue;
        values.push_back(panel.value(*point->figures, point->figures->times()));
        values.push_back(panel.value(*point->figures, point->figures->predicted));
      }
    const SvgUnit unit = panel.unit(values);
    for (double& value : values) value /= unit.size;
    const Plot plot{panel, unit, SvgScale(values, panel.range), left, top};
    std::string out = svg_text(
        left, top - 12,
        fmt::format("{} ({}{})", panel.title, unit.name, plot.scale.logarithmic() ? ", log" : ""),
        "class=\"panel\"");
    for (const double tick : plot.scale.ticks()) {
      const double y = rounded(plot.y(tick));
      out += svg_line(left, y, left + kPlotWidth, y, "grid");
      out += svg_text(left - 8, y + 4, plot.scale.text(tick), "class=\"quiet end\"");
    }
    out += below(left, top + kPlotHeight);
    for (std::size_t line = 0; line < lines_.size(); ++line) out += curves(plot, line);
    return out;
  }

  struct Plot {
    const Panel& panel;
    SvgUnit unit;
    SvgScale scale;
    double left, top;

    [[nodiscard]] double y(double value) const {
      return top + kPlotHeight * (1 - scale.place(value));
    }
    [[nodiscard]] double y(const SweepFigures& figures, const SweepTimes& times) const {
      return y(panel.value(figures, times) / unit.size);
    }
  };

  [[nodiscard]] double x(double left, std::size_t value) const {
    const std::size_t all = report_.axes[0].values.size();
    const double share = all == 1 ? 0.5 : static_cast<double>(value) / static_cast<double>(all - 1);
    return left + kMargin + share * (kPlotWidth - 2 * kMargin);
  }

  /// The first axis' values and its name.
  [[nodiscard]] std::string below(double left, double bottom) const {
    const std::vector<std::string>& values = report_.axes[0].values;
    const std::size_t every = (values.size() + kMostLabels - 1) / kMostLabels;
    const std::size_t shown = (values.size() + every - 1) / every;
    const auto letters = static_cast<std::size_t>(
        std::max(4.0, kPlotWidth / static_cast<double>(shown) / kCharacter - 1));
    std::string out;
    for (std::size_t v = 0; v < values.size(); v += every)
      out += svg_text(rounded(x(left, v)), bottom + 17, shortened(values[v], letters),
                      "class=\"quiet middle\"");
    const SweepAxis& axis = report_.axes[0];
    return out +
           svg_text(left + kPlotWidth / 2, bottom + 34,
                    axis.unit.empty() ? axis.name : fmt::format("{} ({})", axis.name, axis.unit),
                    "class=\"quiet middle\"");
  }

  [[nodiscard]] std::string curves(const Plot& plot, std::size_t line) const {
    std::string out;
    if (report_.measured() && !plot.panel.once)
      out += curve(plot, line, "curve predicted",
                   [](const SweepFigures& f) -> const SweepTimes& { return f.predicted; });
    out += curve(plot, line, report_.measured() && plot.panel.once ? "curve predicted" : "curve",
                 [](const SweepFigures& f) -> const SweepTimes& { return f.times(); });
    for (std::size_t v = 0; v < lines_[line].size(); ++v) {
      const SweepPoint* point = lines_[line][v];
      if (point == nullptr) continue;
      const double at = rounded(x(plot.left, v));
      if (!point->figures) {
        out += svg_text(at, plot.top + 10 + 11 * static_cast<double>(line % kColours.size()), "×",
                        fmt::format("class=\"middle\" style=\"fill: {}\"", colour(line)));
        continue;
      }
      const double y = rounded(plot.y(*point->figures, point->figures->times()));
      out +=
          fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"{}\"/>\n", at, y, colour(line));
      if (best_ && point == &report_.points[*best_])
        out += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"6.5\" class=\"ring\"/>\n", at, y);
    }
    return out;
  }

  /// With gaps where points do not fit.
  template <class Times>
  [[nodiscard]] std::string curve(const Plot& plot, std::size_t line, std::string_view kind,
                                  const Times& times) const {
    std::string path;
    char next = 'M';
    for (std::size_t v = 0; v < lines_[line].size(); ++v) {
      const SweepPoint* point = lines_[line][v];
      if (point == nullptr || !point->figures) {
        next = 'M';
        continue;
      }
      path += fmt::format("{}{} {} ", std::exchange(next, 'L'), rounded(x(plot.left, v)),
                          rounded(plot.y(*point->figures, times(*point->figures))));
    }
    if (path.empty()) return "";
    path.pop_back();
    return fmt::format("<path d=\"{}\" class=\"{}\" stroke=\"{}\"/>\n", path, kind, colour(line));
  }

  const SweepReport& report_;
  std::optional<std::size_t> best_;
  /// By value of the second axis and of the first; null = no such point.
  std::vector<std::vector<const SweepPoint*>> lines_;
};

}  // namespace

std::string sweep_svg(const SweepReport& report, std::string_view title) {
  return Picture(report).text(title);
}

}  // namespace slimpack
