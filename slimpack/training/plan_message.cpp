#include "slimpack/training/plan_message.h"

#include "slimpack/base/compressed_text.h"
#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {
namespace {

/// Ends each part of the text: the plan and each replica's lists. No part contains it.
constexpr char kEndOfPart = '\0';

}  // namespace

std::string plan_message(const StepPlan& plan, std::span<const LoweredSchedule> lowered) {
  std::string text = plan_to_json(plan) + kEndOfPart;
  for (const LoweredSchedule& replica : lowered) text += lowered_to_text(replica) + kEndOfPart;
  return compressed(text);
}

HandedPlan plan_from_message(std::string_view message, std::string_view origin) {
  const std::string text = decompressed(message, origin);
  if (!text.ends_with(kEndOfPart))
    invalid_input("{}: the last part has no end; plan again", origin);
  std::string_view rest = text;
  const auto next_part = [&] {
    const std::string_view part = rest.substr(0, rest.find(kEndOfPart));
    rest.remove_prefix(part.size() + 1);
    return part;
  };
  HandedPlan handed{plan_from_json(next_part(), origin), {}};
  require_valid_plan(handed.plan, origin);
  while (!rest.empty())
    handed.lowered.push_back(lowered_from_text(next_part(), origin, handed.plan.layout.placement));
  require_valid_lowered(handed.plan, handed.lowered, origin);
  return handed;
}

}  // namespace slimpack
