// The figures of a sweep as JSON and as CSV.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "slimpack/base/json_text.h"
#include "slimpack/report/sweep_report.h"

namespace slimpack {
namespace {

/// The figures in the order of the columns.
using Figures = std::vector<std::pair<std::string, nlohmann::json>>;

void add_times(Figures& out, const SweepTimes& times, const std::string& prefix) {
  out.emplace_back(prefix + "makespan_ns", times.makespan.count());
  out.emplace_back(prefix + "bubble", times.bubble);
  out.emplace_back(prefix + "peak_bytes", times.peak.count());
}

Figures figures_of(const SweepReport& report, const SweepPoint& point) {
  const SweepFigures& f = *point.figures;
  Figures out{{"tokens", f.tokens.count()}};
  add_times(out, f.predicted, "");
  if (report.measured()) add_times(out, f.times(), "measured_");
  out.emplace_back("times_best", report.times_best(point));
  out.emplace_back("overhead", f.overhead);
  out.emplace_back("ranks", f.ranks);
  if (report.has_mfu()) out.emplace_back("mfu", *f.mfu);
  out.emplace_back("forward_packs", f.forward_packs);
  out.emplace_back("backward_packs", f.backward_packs);
  out.emplace_back("slices", f.slices);
  return out;
}

nlohmann::json point_json(const SweepReport& report, const SweepPoint& point) {
  nlohmann::json one;
  for (std::size_t a = 0; a < report.axes.size(); ++a)
    one["values"][report.axes[a].name] = report.value(point, a);
  one["fits"] = point.figures.has_value();
  if (!point.figures) {
    one["why"] = point.misfit;
    return one;
  }
  for (auto& [name, value] : figures_of(report, point)) one[name] = std::move(value);
  return one;
}

nlohmann::json turn_json(const SweepReport& report, const SweepTurn& turn) {
  nlohmann::json one{{"axis", report.axes[turn.axis].name},
                     {"best", turn.best},
                     {"longer", nullptr},
                     {"too_small", false},
                     {"text", turn_text(report, turn)}};
  if (turn.longer) {
    one["longer"] = *turn.longer;
    one["too_small"] = turn.too_small(report);
  }
  return one;
}

/// In quotes where it has to be (RFC 4180).
std::string csv_cell(std::string_view text) {
  if (text.find_first_of("\",\n\r") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  return fmt::format("{}\n", fmt::join(cells, ","));
}

}  // namespace

nlohmann::json sweep_json(const SweepReport& report) {
  nlohmann::json axes = nlohmann::json::array(), points = axes, turns = axes;
  for (const SweepAxis& axis : report.axes)
    axes.push_back({{"name", axis.name}, {"values", axis.values}});
  for (const SweepPoint& point : report.points) points.push_back(point_json(report, point));
  for (const SweepTurn& turn : sweep_turns(report)) turns.push_back(turn_json(report, turn));
  nlohmann::json best;
  if (const auto found = report.best()) best = *found;
  return {{"format", "slimpack-sweep"}, {"version", 1},
          {"axes", std::move(axes)},    {"points", std::move(points)},
          {"best", std::move(best)},    {"turns", std::move(turns)}};
}

std::string sweep_csv(const SweepReport& report) {
  std::vector<std::string> titles;
  for (const SweepAxis& axis : report.axes) titles.push_back(csv_cell(axis.name));
  titles.emplace_back("fits");
  if (const auto best = report.best())
    for (const auto& [name, value] : figures_of(report, report.points[*best]))
      titles.push_back(name);
  titles.emplace_back("why");
  std::string text = csv_line(titles);
  for (const SweepPoint& point : report.points) {
    std::vector<std::string> cells;
    for (std::size_t a = 0; a < report.axes.size(); ++a)
      cells.push_back(csv_cell(report.value(point, a)));
    cells.emplace_back(point.figures ? "true" : "false");
    if (point.figures)
      for (const auto& [name, value] : figures_of(report, point)) cells.push_back(json_text(value));
    cells.resize(titles.size() - 1);
    cells.push_back(csv_cell(point.misfit));
    text += csv_line(cells);
  }
  return text;
}

}  // namespace slimpack
