#include "slimpack/report/layout_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "slimpack/base/human.h"
#include "slimpack/report/svg.h"

namespace slimpack {
namespace {

constexpr int kWidth = 108, kHeight = 56;  ///< of a cell
constexpr int kLeft = 72, kTop = 76, kBelow = 40;

/// Where a layout's cell is.
class Axes {
 public:
  explicit Axes(const LayoutReport& report) {
    for (const RatedLayout& layout : report.layouts) {
      tps_.insert(layout.grid.tp);
      pps_.insert(layout.grid.pp);
    }
  }
  [[nodiscard]] int x(std::int32_t pp) const { return kLeft + kWidth * place(pps_, pp); }
  [[nodiscard]] int y(std::int32_t tp) const { return kTop + kHeight * place(tps_, tp); }
  [[nodiscard]] int width() const { return kLeft + kWidth * static_cast<int>(pps_.size()) + 16; }
  [[nodiscard]] int height() const {
    return kTop + kHeight * static_cast<int>(tps_.size()) + kBelow;
  }

  [[nodiscard]] std::string labels() const {
    std::string out;
    for (const std::int32_t pp : pps_)
      out += svg_text(x(pp) + kWidth / 2.0, kTop - 10, fmt::format("pp {}", pp));
    for (const std::int32_t tp : tps_)
      out += svg_text(kLeft - 10, y(tp) + kHeight / 2.0 + 5, fmt::format("tp {}", tp),
                      "text-anchor=\"end\"");
    return out;
  }

 private:
  static int place(const std::set<std::int32_t>& all, std::int32_t one) {
    return static_cast<int>(std::distance(all.begin(), all.find(one)));
  }

  std::set<std::int32_t> tps_, pps_;
};

struct Cell {
  std::string fill = "#eeeeee";
  std::string text;
  bool dark = false;
};

/// Blues of one hue, from nearly white to dark: differences at the top show most.
std::string blue(double share) {
  const double depth = std::clamp((share - 0.4) / 0.6, 0.0, 1.0);
  const auto mix = [&](int light, int dark) {
    return static_cast<int>(std::lround(light + (dark - light) * depth));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(232, 8), mix(241, 81), mix(250, 156));
}

Cell cell_of(const LayoutReport& report, const RatedLayout& layout, double best) {
  switch (layout.outcome) {
    case LayoutOutcome::kRated: {
      const double rate = report.tokens_per_second(layout);
      return {blue(rate / best), human_count(rate), rate > 0.7 * best};
    }
    case LayoutOutcome::kBehind:
      return {"#ffffff", "< " + human_count(static_cast<double>(report.tokens.count()) /
                                            to_seconds(layout.bound))};
    case LayoutOutcome::kStepTooLarge:
      return {.text = "step too large"};
    case LayoutOutcome::kModelTooLarge:
      return {.text = "model too large"};
  }
  return {};
}

}  // namespace

std::string layout_svg(const LayoutReport& report, std::string_view title) {
  const Axes axes(report);
  const RatedLayout& first = report.layouts.front();
  const bool any = first.outcome == LayoutOutcome::kRated;
  const double best = any ? report.tokens_per_second(first) : 1;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"14\" text-anchor=\"middle\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      axes.width(), axes.height());
  out += svg_text(kLeft, 28, title, "text-anchor=\"start\" font-size=\"16\"") + axes.labels();
  for (const RatedLayout& layout : report.layouts) {
    const Cell cell = cell_of(report, layout, best);
    const int x = axes.x(layout.grid.pp), y = axes.y(layout.grid.tp);
    const bool outlined = any && layout.grid == first.grid;
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"{}\"/>\n",
        x + 2, y + 2, kWidth - 4, kHeight - 4, cell.fill, outlined ? "#e6550d" : "#bbbbbb",
        outlined ? 3 : 1);
    const std::string ink = cell.dark ? "fill=\"#ffffff\"" : "fill=\"#222222\"";
    out += svg_text(x + kWidth / 2.0, y + kHeight / 2.0 - 2, cell.text, ink);
    out += svg_text(x + kWidth / 2.0, y + kHeight / 2.0 + 17, fmt::format("dp {}", layout.grid.dp),
                    ink + " font-size=\"12\"");
  }
  out += svg_text(kLeft, axes.height() - 14,
                  "tokens per second; darker is faster, the best is outlined; < by its lower bound",
                  "text-anchor=\"start\" font-size=\"12\"");
  return out + "</svg>\n";
}

}  // namespace slimpack
