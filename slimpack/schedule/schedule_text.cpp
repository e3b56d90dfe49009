#include <fmt/format.h>

#include <charconv>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

constexpr std::string_view kPassLetters = "FBIWEHG";  // in the order of Pass

/// Parses digits at the front of `text` and drops them; nullopt when there are none or too many.
std::optional<std::int32_t> take_number(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// Drops `prefix` from the front of `text` if it is there.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<Instruction> instruction_from_text(std::string_view cell) {
  const auto stage = take_number(cell);
  const Operation operation = take(cell, "RECV_")   ? Operation::kReceive
                              : take(cell, "SEND_") ? Operation::kSend
                                                    : Operation::kCompute;
  const std::size_t pass = cell.empty() ? std::string_view::npos : kPassLetters.find(cell.front());
  if (!stage || pass == std::string_view::npos) return std::nullopt;
  cell.remove_prefix(1);
  const auto pack = take_number(cell);
  if (!pack || !cell.empty()) return std::nullopt;
  const Action action{StageId(*stage), static_cast<Pass>(pass), PackId(*pack)};
  if (operation != Operation::kCompute && action.pass != Pass::kForward &&
      action.pass != Pass::kBackward)
    return std::nullopt;
  return Instruction{operation, action};
}

std::optional<Action> action_from_text(std::string_view cell) {
  const std::optional<Instruction> i = instruction_from_text(cell);
  if (!i || i->operation != Operation::kCompute) return std::nullopt;
  return i->action;
}

/// "2F5>0F7:1024".
std::optional<ContextExchange> exchange_from_text(std::string_view cell) {
  const std::size_t to = cell.find('>'), keys = cell.find(':');
  if (to == std::string_view::npos || keys == std::string_view::npos || keys < to)
    return std::nullopt;
  const auto giver = action_from_text(cell.substr(0, to));
  const auto taker = action_from_text(cell.substr(to + 1, keys - to - 1));
  std::string_view digits = cell.substr(keys + 1);
  const auto count = take_number(digits);
  if (!giver || !taker || !count || !digits.empty()) return std::nullopt;
  return ContextExchange{*giver, *taker, Tokens(*count)};
}

/// Takes the line of exchanges off the end of a text; empty if it has none.
std::string_view take_exchanges(std::string_view& text) {
  std::string_view lines = text;
  while (lines.ends_with('\n') || lines.ends_with('\r')) lines.remove_suffix(1);
  const std::size_t before = lines.rfind('\n');
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view last = lines.substr(begin);
  if (last.find('>') == std::string_view::npos) return {};
  text = text.substr(0, begin);
  return last;
}

StageId stage_of(const Action& action) {
  return action.stage;
}
StageId stage_of(const Instruction& instruction) {
  return instruction.action.stage;
}

/// Parses the cells of lists. T: Action or Instruction.
template <class T>
struct ListReader {
  std::optional<T> (*cell_from_text)(std::string_view cell);
  const char* rule;  ///< what a cell is and how to write it
  std::string_view origin;

  std::vector<T> rank(std::string_view line, std::size_t number) const {
    std::vector<T> list;
    for (;;) {
      const std::size_t comma = line.find(',');
      const std::string_view cell = line.substr(0, comma);
      const std::optional<T> entry = cell_from_text(cell);
      if (!entry)
        invalid_input("{}: line {}, cell {}: \"{}\" is no {}", origin, number, list.size() + 1,
                      cell.substr(0, 32), rule);
      list.push_back(*entry);
      if (comma == std::string_view::npos) return list;
      line.remove_prefix(comma + 1);
    }
  }

  std::vector<std::vector<T>> ranks(std::string_view text, const StagePlacement& placement) const {
    std::vector<std::vector<T>> ranks;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      ranks.push_back(line.empty() ? std::vector<T>{} : rank(line, ranks.size() + 1));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
    if (ranks.empty())
      invalid_input("{}: the schedule is empty; write one line of actions per rank", origin);
    require_own_stages(ranks, placement);
    return ranks;
  }

  void require_own_stages(const std::vector<std::vector<T>>& ranks,
                          const StagePlacement& placement) const {
    const auto count = static_cast<std::int32_t>(ranks.size());
    const std::size_t placed = placement.rank_of_stage().size();
    const auto stages = static_cast<std::size_t>(count * placement.stages_per_rank());
    if (placed > 0 && placed != stages)
      invalid_input("{}: {} lines of actions for {} ranks; plan again", origin, count,
                    placed / static_cast<std::size_t>(placement.stages_per_rank()));
    for (std::size_t r = 0; r < ranks.size(); ++r)
      for (std::size_t i = 0; i < ranks[r].size(); ++i) {
        const StageId stage = stage_of(ranks[r][i]);
        const auto rank = static_cast<std::int32_t>(r);
        if (stage.index() < stages && placement.rank_of(stage) == rank) continue;
        std::string own;  // stages of the line
        for (const StageId s : placement.stages_of(rank))
          own += fmt::format("{}{}", own.empty() ? "" : " or ", s.value());
        invalid_input("{}: line {}, cell {}: {} belongs to stage {}, this line to stage {}", origin,
                      r + 1, i + 1, to_string(ranks[r][i]), stage.value(), own);
      }
  }
};

std::string to_string(const ContextExchange& exchange) {
  return fmt::format("{}>{}:{}", to_string(exchange.giver), to_string(exchange.taker),
                     exchange.keys.count());
}

template <class T>
void add_line(std::string& text, const std::vector<T>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += ',';
    text += to_string(list[i]);
  }
  text += '\n';
}

/// Kind: Schedule or LoweredSchedule.
template <class Kind>
std::string text_of(const Kind& schedule) {
  std::string text;
  for (const auto& list : schedule.ranks) add_line(text, list);
  if (!schedule.exchanges.empty()) add_line(text, schedule.exchanges);
  return text;
}

/// Kind: Schedule or LoweredSchedule.
template <class Kind, class T>
Kind read_schedule(const ListReader<T>& lists, std::string_view text,
                   const StagePlacement& placement) {
  constexpr const char* kRule =
      "context exchange; write giver, taker and the number of keys, as in 2F5>0F7:1024";
  Kind schedule{{}, placement, {}};
  const std::string_view exchanges = take_exchanges(text);
  schedule.ranks = lists.ranks(text, placement);
  if (!exchanges.empty())
    schedule.exchanges = ListReader<ContextExchange>{exchange_from_text, kRule, lists.origin}.rank(
        exchanges, schedule.ranks.size() + 1);
  return schedule;
}

}  // namespace

char letter_of(Pass pass) {
  return kPassLetters[static_cast<std::size_t>(pass)];
}

std::string to_string(const Action& action) {
  return to_string(Instruction{Operation::kCompute, action});
}

std::string to_string(const Instruction& instruction) {
  const std::string_view verb = instruction.operation == Operation::kReceive ? "RECV_"
                                : instruction.operation == Operation::kSend  ? "SEND_"
                                                                             : "";
  const Action& action = instruction.action;
  return fmt::format("{}{}{}{}", action.stage.value(), verb, letter_of(action.pass),
                     action.pack.value());
}

std::string schedule_to_text(const Schedule& schedule) {
  return text_of(schedule);
}

Schedule schedule_from_text(std::string_view text, std::string_view origin,
                            const StagePlacement& placement) {
  constexpr const char* kRule =
      "action; write stage, one of F, B, I, W, E, H and G, and pack, as in 3F7";
  return read_schedule<Schedule>(ListReader<Action>{action_from_text, kRule, origin}, text,
                                 placement);
}

std::string lowered_to_text(const LoweredSchedule& lowered) {
  return text_of(lowered);
}

LoweredSchedule lowered_from_text(std::string_view text, std::string_view origin,
                                  const StagePlacement& placement) {
  constexpr const char* kRule =
      "instruction; write stage, RECV_ or SEND_ for messages, one of F, B, I, W, E, H and G, and "
      "pack, as in "
      "3RECV_F7 or 3F7";
  return read_schedule<LoweredSchedule>(
      ListReader<Instruction>{instruction_from_text, kRule, origin}, text, placement);
}

}  // namespace slimpack
