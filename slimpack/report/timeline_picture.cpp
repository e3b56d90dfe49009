#include "slimpack/report/timeline_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "slimpack/base/human.h"
#include "slimpack/report/rivals.h"
#include "slimpack/report/span_style.h"
#include "slimpack/report/svg.h"

namespace slimpack {
namespace {

constexpr double kWidth = 960;
constexpr double kRow = 18, kGap = 3;  // a rank's row, and what is free below it
constexpr double kTitle = 30;          // above a timeline's rows
constexpr double kBelow = 12;          // below them
constexpr double kAxis = 22, kLegend = 26;
constexpr std::int32_t kMostRanks = 64;
constexpr std::size_t kMostBoxes = 20'000;
// Grey of the same contrast on white and on black.
constexpr const char* kText = "#757b84";

/// Maps times to x, counted from the start of each timeline.
class Scale {
 public:
  Scale(std::span<const PicturedTimeline> timelines, double left) : left_(left) {
    for (const PicturedTimeline& one : timelines)
      end_ = std::max(end_, metrics_of(one.timeline).makespan);
  }
  [[nodiscard]] double width(Nanos duration) const {
    return (kWidth - left_) * static_cast<double>(duration.count()) /
           static_cast<double>(end_.count());
  }
  [[nodiscard]] double x(Nanos since_start) const { return left_ + width(since_start); }
  [[nodiscard]] double left() const { return left_; }
  [[nodiscard]] Nanos end() const { return end_; }

 private:
  double left_;
  Nanos end_{1};
};

/// How many of the first ranks are drawn.
std::int32_t drawn_ranks(const Timeline& timeline) {
  std::vector<std::size_t> boxes(static_cast<std::size_t>(timeline.ranks), 0);
  for (const Span& span : timeline.spans)
    boxes[static_cast<std::size_t>(span.rank)] += is_busy(span.kind) ? 1 : 0;
  std::size_t sum = 0;
  std::int32_t ranks = 0;
  for (; ranks < std::min(timeline.ranks, kMostRanks); ++ranks) {
    sum += boxes[static_cast<std::size_t>(ranks)];
    if (ranks > 0 && sum > kMostBoxes) break;
  }
  return ranks;
}

std::string box(const Span& span, Nanos start, double y, const Scale& scale) {
  const SpanStyle style = style_of(span.kind);
  const double width = scale.width(span.end - span.start);
  const std::string pack = span.pack.value() < 0 ? "" : fmt::format(" {}", span.pack.value());
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\">"
      "<title>{}{}: {} from {}</title></rect>\n",
      scale.x(span.start - start), y, std::max(width, 0.2), kRow, style.colour, style.title, pack,
      human_duration(span.end - span.start), human_duration(span.start - start));
}

/// One timeline's title and rows; its first line is at `top`.
std::string rows_of(const PicturedTimeline& one, double top, const Scale& scale) {
  const Timeline& timeline = one.timeline;
  const TimelineMetrics metrics = metrics_of(timeline);
  const std::int32_t ranks = drawn_ranks(timeline);
  const std::string hidden =
      ranks < timeline.ranks ? fmt::format(" (first {} of {} ranks)", ranks, timeline.ranks) : "";
  std::string out = fmt::format(
      "<text x=\"{:g}\" y=\"{:g}\" font-size=\"14\"><tspan font-weight=\"600\">{}</tspan>  {}, "
      "{} bubble{}</text>\n",
      scale.left(), top + kTitle - 10, xml_text(one.title), human_duration(metrics.makespan),
      human_share(metrics.bubble_ratio), hidden);
  const std::vector<std::string> labels = rank_labels(timeline);
  const auto y = [&](std::int32_t rank) { return top + kTitle + rank * (kRow + kGap); };
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    out += svg_text(scale.left() - 8, y(rank) + kRow - 5, labels[static_cast<std::size_t>(rank)],
                    "text-anchor=\"end\"");
    out += fmt::format(
        "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\" "
        "fill-opacity=\"0.16\"/>\n",
        scale.left(), y(rank), scale.width(metrics.makespan), kRow, kText);
  }
  const Nanos start = start_of(timeline);
  out += "<g stroke=\"#000000\" stroke-opacity=\"0.35\" stroke-width=\"0.5\">\n";
  for (const Span& span : timeline.spans)
    if (span.rank < ranks && is_busy(span.kind)) out += box(span, start, y(span.rank), scale);
  return out + "</g>\n";
}

double height_of(const PicturedTimeline& one) {
  return kTitle + drawn_ranks(one.timeline) * (kRow + kGap) + kBelow;
}

/// 1, 2 or 5 times a power of ten: the shortest step that gives at most eight ticks.
Nanos tick_step(Nanos end) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t factor : {1, 2, 5})
      if (end / (factor * power) <= Nanos(8)) return Nanos(factor * power);
}

std::string axis_at(double y, const Scale& scale) {
  const Nanos step = tick_step(scale.end());
  std::string out =
      fmt::format("<line x1=\"{:g}\" x2=\"{:g}\" y1=\"{:g}\" y2=\"{:g}\" stroke=\"{}\"/>\n",
                  scale.left(), kWidth, y, y, kText);
  for (Nanos at(0); at <= scale.end(); at += step) {
    out += fmt::format(
        "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:g}\" y2=\"{2:g}\" stroke=\"{3}\"/>\n",
        scale.x(at), y, y + 4, kText);
    const bool last = scale.x(at) > kWidth - 20;
    out += svg_text(last ? kWidth : scale.x(at), y + 17, at == Nanos(0) ? "0" : human_duration(at),
                    last ? "text-anchor=\"end\"" : "text-anchor=\"middle\"");
  }
  return out;
}

/// The kinds that occur in any of the timelines.
std::string legend_at(double y, std::span<const PicturedTimeline> timelines, double left) {
  std::set<SpanKind> present;
  for (const PicturedTimeline& one : timelines)
    for (const Span& span : one.timeline.spans) present.insert(span.kind);
  constexpr double kLetter = 6.4;  // about the width of one
  double x = left;
  std::string out;
  const auto entry = [&](std::string_view colour, std::string_view opacity, std::string_view text) {
    out += fmt::format("<rect x=\"{:.5g}\" y=\"{:g}\" width=\"11\" height=\"11\" fill=\"{}\"{}/>\n",
                       x, y - 10, colour, opacity);
    out += svg_text(x + 16, y, text);
    x += 16 + kLetter * static_cast<double>(text.size()) + 18;
  };
  for (const SpanKind kind : drawn_kinds())
    if (present.contains(kind)) entry(style_of(kind).colour, "", style_of(kind).title);
  entry(kText, " fill-opacity=\"0.16\"", "waiting");
  return out;
}

/// The room that labels of ranks need.
double label_width(std::span<const PicturedTimeline> timelines) {
  std::size_t letters = 0;
  for (const PicturedTimeline& one : timelines)
    for (const std::string& label : rank_labels(one.timeline))
      letters = std::max(letters, label.size());
  return 14 + 6.4 * static_cast<double>(letters);
}

}  // namespace

std::string timelines_svg(std::span<const PicturedTimeline> timelines) {
  const Scale scale(timelines, label_width(timelines));
  std::string body;
  double y = 0;
  for (const PicturedTimeline& one : timelines) {
    body += rows_of(one, y, scale);
    y += height_of(one);
  }
  body += axis_at(y, scale) + legend_at(y + kAxis + kLegend - 6, timelines, scale.left());
  const double height = y + kAxis + kLegend;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">\n",
             kWidth, height, kText) +
         body + "</svg>\n";
}

std::string step_svg(const PlanFile& file, const PlanLimits& limits) {
  const RatedPlan packed = packed_rival(file, limits);
  const std::array timelines{
      PicturedTimeline{"packed as usual", predict(packed, file.cost).timeline},
      PicturedTimeline{"as planned", predict(file.step, file.cost).timeline}};
  return timelines_svg(timelines);
}

}  // namespace slimpack
