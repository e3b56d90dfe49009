#include <fmt/format.h>

#include <charconv>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

constexpr std::string_view kPassLetters = "FBIW";  // in the order of Pass

/// Parses digits at the front of `text` and drops them; nullopt when there are none or too many.
std::optional<std::int32_t> take_number(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<Action> action_from_text(std::string_view cell) {
  const auto stage = take_number(cell);
  const std::size_t pass = cell.empty() ? std::string_view::npos : kPassLetters.find(cell.front());
  if (!stage || pass == std::string_view::npos) return std::nullopt;
  cell.remove_prefix(1);
  const auto pack = take_number(cell);
  if (!pack || !cell.empty()) return std::nullopt;
  return Action{StageId(*stage), static_cast<Pass>(pass), PackId(*pack)};
}

std::vector<Action> stage_from_text(std::string_view line, std::size_t number,
                                    std::string_view origin) {
  std::vector<Action> actions;
  for (;;) {
    const std::size_t comma = line.find(',');
    const std::string_view cell = line.substr(0, comma);
    const std::optional<Action> action = action_from_text(cell);
    if (!action)
      invalid_input(
          "{}: line {}, cell {}: \"{}\" is no action; write stage, F, B, I or W, and pack, as in "
          "3F7",
          origin, number, actions.size() + 1, cell.substr(0, 32));
    if (action->stage.index() + 1 != number)
      invalid_input("{}: line {}, cell {}: {} belongs to stage {}, this line to stage {}", origin,
                    number, actions.size() + 1, cell, action->stage.value(), number - 1);
    actions.push_back(*action);
    if (comma == std::string_view::npos) return actions;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage.value(),
                     kPassLetters[static_cast<std::size_t>(action.pass)], action.pack.value());
}

std::string schedule_to_text(const Schedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.stages) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) text += ',';
      text += to_string(actions[i]);
    }
    text += '\n';
  }
  return text;
}

Schedule schedule_from_text(std::string_view text, std::string_view origin) {
  Schedule schedule;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::size_t number = schedule.stages.size() + 1;
    schedule.stages.push_back(line.empty() ? std::vector<Action>{}
                                           : stage_from_text(line, number, origin));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  if (schedule.stages.empty())
    invalid_input("{}: the schedule is empty; write one line of actions per stage", origin);
  return schedule;
}

}  // namespace slimpack
