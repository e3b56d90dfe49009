#include "slimpack/report/sweep_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "slimpack/base/human.h"

namespace slimpack {
namespace {

constexpr double kNotable = 1.005;
constexpr double kNotableMeasured = 1.05;
/// From here on people read "times as long" more easily than a percentage.
constexpr double kSeveral = 2;

double number(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The points that fit of each line along the axis, from coarse to fine.
std::vector<std::vector<std::size_t>> lines_along(const SweepReport& report, std::size_t axis) {
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> lines;
  for (std::size_t p = 0; p < report.points.size(); ++p) {
    if (!report.points[p].figures) continue;
    std::vector<std::size_t> others = report.points[p].at;
    others[axis] = 0;
    lines[others].push_back(p);
  }
  const double sign = report.axes[axis].finer == Finer::kHigher ? 1 : -1;
  std::vector<std::vector<std::size_t>> out;
  for (auto& [others, line] : lines) {
    std::ranges::sort(line, {}, [&](std::size_t p) {
      return sign * number(report.value(report.points[p], axis));
    });
    if (line.size() > 1) out.push_back(std::move(line));
  }
  return out;
}

SweepTurn turn_of(const SweepReport& report, std::size_t axis,
                  const std::vector<std::size_t>& line) {
  const auto seconds = [&](std::size_t p) {
    return to_seconds(report.points[p].figures->times().makespan);
  };
  const double notable = report.measured() ? kNotableMeasured : kNotable;
  const auto best = std::ranges::min_element(line, {}, seconds);
  SweepTurn turn{axis, *best, {}, best + 1 == line.end()};
  for (auto p = line.end(); --p != best && seconds(*p) > notable * seconds(*best);)
    turn.longer = *p;
  return turn;
}

/// Changes of less than this share of the difference between two steps are not worth a word.
constexpr double kWorthAWord = 0.02;

/// "grows by 12 ms a rank (from 1.0% to 2.0% of busy time)".
std::string change(double nanoseconds, const std::string& shares) {
  return fmt::format("{} by {} a rank{}", nanoseconds < 0 ? "falls" : "grows",
                     human_duration(Nanos(std::llround(std::abs(nanoseconds)))), shares);
}

/// Why the step of `b` is longer than that of `a`.
std::string reason(const SweepFigures& a, const SweepFigures& b) {
  const StepParts before = parts_of(a), after = parts_of(b);
  const auto shares = [](double from, double to, const char* of) {
    return fmt::format(" (from {} to {}{})", human_share(from), human_share(to), of);
  };
  std::string text = fmt::format(
      "what MicroPacks and slices cost by themselves {}",
      change(after.overhead - before.overhead, shares(a.overhead, b.overhead, " of busy time")));
  const auto longer = static_cast<double>((b.times().makespan - a.times().makespan).count());
  if (std::abs(after.work - before.work) > kWorthAWord * longer)
    text += fmt::format(", what tokens and prefixes cost {}", change(after.work - before.work, ""));
  return text + fmt::format(", and waiting {}",
                            change(after.waiting - before.waiting,
                                   shares(a.times().bubble, b.times().bubble, " bubble")));
}

/// The things that an axis makes finer: the number of MicroPacks, or where slices may be cut.
const char* made_finer(const SweepAxis& axis) {
  return axis.finer == Finer::kHigher ? "MicroPacks" : "slices";
}

/// "packs (pp 2)": the axis and what else the line has in common.
std::string line_text(const SweepReport& report, const SweepTurn& turn) {
  std::vector<std::string> others;
  for (std::size_t a = 0; a < report.axes.size(); ++a)
    if (a != turn.axis && report.axes[a].values.size() > 1)
      others.push_back(
          fmt::format("{} {}", report.axes[a].name, report.value(report.points[turn.best], a)));
  const std::string& name = report.axes[turn.axis].name;
  return others.empty() ? name : fmt::format("{} ({})", name, fmt::join(others, ", "));
}

}  // namespace

StepParts parts_of(const SweepFigures& figures) {
  const auto whole = static_cast<double>(figures.times().makespan.count());
  const double waiting = figures.times().bubble * whole;
  const double overhead = figures.overhead * (whole - waiting);
  return {overhead, whole - waiting - overhead, waiting};
}

bool SweepTurn::too_small(const SweepReport& report) const {
  const StepParts before = parts_of(*report.points[best].figures);
  const StepParts after = parts_of(*report.points[*longer].figures);
  return after.overhead + after.work - before.overhead - before.work >
         after.waiting - before.waiting;
}

std::vector<SweepTurn> sweep_turns(const SweepReport& report) {
  std::vector<SweepTurn> turns;
  for (std::size_t a = 0; a < report.axes.size(); ++a) {
    if (report.axes[a].finer == Finer::kNeither) continue;
    for (const std::vector<std::size_t>& line : lines_along(report, a))
      turns.push_back(turn_of(report, a, line));
  }
  return turns;
}

std::string turn_text(const SweepReport& report, const SweepTurn& turn) {
  const SweepPoint& best = report.points[turn.best];
  const std::string shortest = fmt::format("{}: the step is shortest with {}",
                                           line_text(report, turn), report.value(best, turn.axis));
  const SweepAxis& axis = report.axes[turn.axis];
  if (!turn.longer)
    return turn.finest ? fmt::format("{}, the finest that was tried. No {} are too small yet.",
                                     shortest, made_finer(axis))
                       : shortest + ". Finer makes no notable difference.";
  const SweepPoint& longer = report.points[*turn.longer];
  const std::string& value = report.value(longer, turn.axis);
  const double times =
      to_seconds(longer.figures->times().makespan) / to_seconds(best.figures->times().makespan);
  const std::string turning =
      turn.too_small(report)
          ? fmt::format(", and {} are too small from {} on", made_finer(axis), value)
          : fmt::format(", and longer from {} on, where ranks wait more", value);
  const std::string taken = times < kSeveral ? fmt::format("{} longer", human_share(times - 1))
                                             : fmt::format("{:.1f} times as long", times);
  return fmt::format("{}{}. With {} it takes {}: {}.", shortest, turning, value, taken,
                     reason(*best.figures, *longer.figures));
}

}  // namespace slimpack
