#include "slimpack/report/sweep_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {
namespace {

constexpr std::size_t kShownMisfits = 3;
/// The most lines through the points of which the text shows all. With more lines it shows those of
/// the best point; the JSON has all.
constexpr std::size_t kShownTurns = 4;
constexpr const char* kNoFit = "does not fit";

/// The figures between the axes and the end of a row.
std::vector<Column> figure_columns(const SweepReport& report) {
  std::vector<Column> columns;
  if (report.measured()) {
    columns = {{"step"},
               {"predicted"},
               {"÷ best"},
               {"bubble"},
               {"predicted", Align::kRight, 2},
               {"overhead", Align::kRight, 1},
               {"peak"},
               {"predicted", Align::kRight, 3}};
  } else {
    columns = {{"step"},
               {"÷ best"},
               {"bubble"},
               {"overhead"},
               {"peak"},
               {"MicroPacks", Align::kRight, 1},
               {"slices", Align::kRight, 2}};
    if (report.has_mfu()) columns.insert(columns.begin() + 2, {"MFU", Align::kRight, 3});
  }
  if (report.ranks_differ()) columns.insert(columns.begin() + 1, {"ranks"});
  return columns;
}

std::string packs_text(const SweepFigures& f) {
  return f.forward_packs == f.backward_packs
             ? fmt::format("{}", f.forward_packs)
             : fmt::format("{} + {}", f.forward_packs, f.backward_packs);
}

std::vector<std::string> figure_cells(const SweepReport& report, const SweepPoint& point,
                                      bool is_best) {
  const SweepFigures& f = *point.figures;
  const SweepTimes& times = f.times();
  std::string ratio = is_best ? "best" : fmt::format("{:.3f}", report.times_best(point));
  std::vector<std::string> cells;
  if (report.measured()) {
    cells = {human_duration(times.makespan),
             human_duration(f.predicted.makespan),
             std::move(ratio),
             human_share(times.bubble),
             human_share(f.predicted.bubble),
             human_share(f.overhead),
             human_bytes(times.peak),
             human_bytes(f.predicted.peak)};
  } else {
    cells = {human_duration(times.makespan),
             std::move(ratio),
             human_share(times.bubble),
             human_share(f.overhead),
             human_bytes(times.peak),
             packs_text(f),
             grouped(static_cast<std::int64_t>(f.slices))};
    if (report.has_mfu()) cells.insert(cells.begin() + 2, human_share(*f.mfu));
  }
  if (report.ranks_differ()) cells.insert(cells.begin() + 1, grouped(f.ranks));
  return cells;
}

std::string table_text(const SweepReport& report, int columns) {
  std::vector<Column> titles;
  for (const SweepAxis& axis : report.axes) titles.push_back({axis.name});
  const std::vector<Column> figures = figure_columns(report);
  titles.insert(titles.end(), figures.begin(), figures.end());
  Table table(std::move(titles));
  const std::optional<std::size_t> best = report.best();
  for (std::size_t p = 0; p < report.points.size(); ++p) {
    const SweepPoint& point = report.points[p];
    std::vector<std::string> row;
    for (std::size_t a = 0; a < report.axes.size(); ++a) row.push_back(report.value(point, a));
    std::vector<std::string> cells(figures.size());
    cells.front() = kNoFit;
    if (point.figures) cells = figure_cells(report, point, p == best);
    row.insert(row.end(), cells.begin(), cells.end());
    table.add_row(std::move(row));
  }
  std::string text = table.text(columns);
  if (report.ranks_differ())
    text += folded(
                "best: the most tokens per second of a rank; ÷ best: time of ranks for as many "
                "tokens",
                columns) +
            "\n";
  return text;
}

std::string misfits_text(const SweepReport& report, int columns) {
  std::string text;
  std::size_t misfits = 0;
  for (const SweepPoint& point : report.points) {
    if (point.figures || ++misfits > kShownMisfits) continue;
    text += folded(fmt::format("{}: {}", point_text(report, point), point.misfit), columns, 2);
    text += "\n";
  }
  if (misfits > kShownMisfits)
    text += fmt::format("… and {} others that do not fit\n", misfits - kShownMisfits);
  return text.empty() ? text : "\n" + text;
}

std::string turns_text(const SweepReport& report, int columns) {
  const std::vector<SweepTurn> turns = sweep_turns(report);
  std::string text;
  for (const SweepTurn& turn : turns)
    if (turns.size() <= kShownTurns || turn.best == report.best())
      text += "\n" + folded(turn_text(report, turn), columns) + "\n";
  return text;
}

}  // namespace

bool SweepReport::has_mfu() const {
  return std::ranges::all_of(points, [](const SweepPoint& point) {
    return !point.figures || point.figures->mfu.has_value();
  });
}

bool SweepReport::measured() const {
  return std::ranges::any_of(
      points, [](const SweepPoint& point) { return point.figures && point.figures->measured; });
}

bool SweepReport::ranks_differ() const {
  std::set<std::int64_t> numbers;
  for (const SweepPoint& point : points)
    if (point.figures) numbers.insert(point.figures->ranks);
  return numbers.size() > 1;
}

std::optional<std::size_t> SweepReport::best() const {
  std::optional<std::size_t> best;
  for (std::size_t p = 0; p < points.size(); ++p)
    if (points[p].figures &&
        (!best || points[p].figures->rank_speed() > points[*best].figures->rank_speed()))
      best = p;
  return best;
}

double SweepReport::times_best(const SweepPoint& point) const {
  return points[*best()].figures->rank_speed() / point.figures->rank_speed();
}

std::string point_text(const SweepReport& report, const SweepPoint& point) {
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < report.axes.size(); ++a)
    parts.push_back(fmt::format("{} {}", report.axes[a].name, report.value(point, a)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string sweep_text(const SweepReport& report, int columns) {
  return table_text(report, columns) + misfits_text(report, columns) + turns_text(report, columns);
}

}  // namespace slimpack
