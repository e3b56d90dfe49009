#include "slimpack/report/compared_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMostTurns = 1000;
constexpr std::int64_t kMostOfAFigure = std::int64_t{1} << 53;

nlohmann::ordered_json planner_to_json(const PlannerTurns& turns) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const Nanos step : turns.step) steps.push_back(step.count());
  return {{"planner", turns.planner},
          {"step_ns", std::move(steps)},
          {"bubble", turns.bubble},
          {"predicted_bubble", turns.predicted_bubble},
          {"peak_activation_bytes", turns.peak_activation.count()}};
}

void require_share(double share, const std::string& where) {
  if (!(share >= 0 && share <= 1)) invalid_input("{} is {}, must be from 0 to 1", where, share);
}

PlannerTurns planner_from(const JsonFields& fields) {
  PlannerTurns turns;
  turns.planner = fields.text("planner");
  for (const auto& step : fields.array("step_ns"))
    turns.step.push_back(
        Nanos(json_integer(step, fields.origin() + ": step_ns", 1, kMostOfAFigure)));
  for (const auto& bubble : fields.array("bubble")) {
    if (!bubble.is_number()) invalid_input("{}: bubble must have numbers", fields.origin());
    require_share(turns.bubble.emplace_back(bubble.get<double>()), fields.origin() + ": bubble");
  }
  turns.predicted_bubble = fields.number("predicted_bubble");
  require_share(turns.predicted_bubble, fields.origin() + ": predicted_bubble");
  turns.peak_activation = Bytes(fields.integer("peak_activation_bytes", 0, kMostOfAFigure));
  const auto count = static_cast<std::int64_t>(turns.step.size());
  if (count < 1 || count > kMostTurns || turns.bubble.size() != turns.step.size())
    invalid_input("{}: step_ns and bubble have {} and {} figures, must have as many, 1 to {}",
                  fields.origin(), count, turns.bubble.size(), kMostTurns);
  return turns;
}

std::vector<double> seconds_of(const PlannerTurns& turns) {
  std::vector<double> seconds;
  for (const Nanos step : turns.step) seconds.push_back(to_seconds(step));
  return seconds;
}

/// "6.7–7.1 s": the least and the most, with one unit where both have the same.
template <class Text>
std::string range_text(const std::vector<double>& figures, const Text& text) {
  const auto [least, most] = std::ranges::minmax(figures);
  std::string from = text(least);
  const std::string to = text(most);
  const auto unit_of = [](const std::string& figure) {
    return figure.substr(std::min(figure.find_first_not_of("0123456789."), figure.size()));
  };
  const std::string unit = unit_of(to);
  if (unit_of(from) == unit) from.resize(from.size() - unit.size());
  return from + "–" + to;
}

std::string step_text(double seconds) {
  return human_duration(from_seconds(seconds));
}

void add_row(Table& table, const std::string& name, const PlannerTurns& turns, Tokens tokens) {
  const std::vector<double> seconds = seconds_of(turns);
  table.add_row({name, human_share(median(turns.bubble)), range_text(turns.bubble, human_share),
                 human_share(turns.predicted_bubble), step_text(median(seconds)),
                 range_text(seconds, step_text), human_bytes(turns.peak_activation),
                 human_count(static_cast<double>(tokens.count()) / median(seconds))});
}

}  // namespace

double ComparedTurns::times_as_fast() const {
  std::vector<double> quotients;
  for (std::size_t turn = 0; turn < own.step.size(); ++turn)
    quotients.push_back(to_seconds(other.step[turn]) / to_seconds(own.step[turn]));
  return median(std::move(quotients));
}

ClockKind clock_field(const JsonFields& fields) {
  const std::string text = fields.text("clock");
  for (const ClockKind kind : {ClockKind::kWall, ClockKind::kVirtual})
    if (to_string(kind) == text) return kind;
  invalid_input("{}: clock is \"{}\", must be \"wall\" or \"virtual\"; train again",
                fields.origin(), text);
}

nlohmann::ordered_json to_json(const ComparedTurns& turns) {
  return {{"clock", to_string(turns.clock)},
          {"times_as_fast", turns.times_as_fast()},
          {"planners", {planner_to_json(turns.own), planner_to_json(turns.other)}}};
}

ComparedTurns compared_turns_from(const JsonFields& fields) {
  ComparedTurns turns;
  turns.clock = clock_field(fields);
  const auto& planners = fields.array("planners");
  if (planners.size() != 2)
    invalid_input("{}: planners has {} entries, must have 2", fields.origin(), planners.size());
  turns.own = planner_from(JsonFields(planners[0], fields.origin() + ": planners[0]"));
  turns.other = planner_from(JsonFields(planners[1], fields.origin() + ": planners[1]"));
  if (turns.own.step.size() != turns.other.step.size())
    invalid_input("{}: the planners have {} and {} turns, must have as many", fields.origin(),
                  turns.own.step.size(), turns.other.step.size());
  return turns;
}

std::string compared_turns_text(const ComparedTurns& turns, Tokens tokens, int columns) {
  Table table({{"", Align::kLeft},
               {"bubble"},
               {"spread"},
               {"predicted", Align::kRight, 2},
               {"step"},
               {"spread"},
               {"peak activations", Align::kRight, 1},
               {"tokens/s", Align::kRight, 3}});
  add_row(table, "last step again, sliced", turns.own, tokens);
  add_row(table, fmt::format("last step again, {}", turns.other.planner), turns.other, tokens);
  const std::string how =
      fmt::format("medians of {} each, by turns, {}",
                  counted(static_cast<std::int64_t>(turns.own.step.size()), "run"),
                  turns.clock == ClockKind::kWall ? "by the wall clock"
                                                  : "in virtual time (a core for every rank)");
  const std::string waiting =
      fmt::format("ranks wait {} of the step sliced, {} {}", human_share(median(turns.own.bubble)),
                  human_share(median(turns.other.bubble)), turns.other.planner);
  const std::string result =
      fmt::format("sliced is {:.2f} × as fast as fixed packing + 1F1B on these documents",
                  turns.times_as_fast());
  return fmt::format("{}{}\n\n{}\n{}\n", table.text(columns), folded(how, columns),
                     folded(waiting, columns), folded(result, columns));
}

}  // namespace slimpack
