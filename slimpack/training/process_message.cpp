#include "slimpack/training/process_message.h"

#include <algorithm>

#include "slimpack/base/compressed_text.h"
#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {
namespace {

using Kind = ProcessMessage::Kind;

constexpr std::size_t kHead = 2;  // bytes: the kind, and the length of `documents`
constexpr std::size_t kMostDocuments = 255;

const ProcessMessage* first_of(std::span<const ProcessMessage> all, Kind kind) {
  const auto found = std::ranges::find(all, kind, &ProcessMessage::kind);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::string to_bytes(const ProcessMessage& message) {
  SLIMPACK_CHECK(message.documents.size() <= kMostDocuments);
  std::string bytes{static_cast<char>(message.kind), static_cast<char>(message.documents.size())};
  return bytes + message.documents + message.content;
}

ProcessMessage process_message_from_bytes(std::string_view bytes, std::string_view origin) {
  const auto refuse = [&] {
    invalid_input(
        "{}: {} bytes that are no message; all processes need the same version of SlimPack", origin,
        bytes.size());
  };
  if (bytes.size() < kHead) refuse();
  const auto kind = static_cast<unsigned char>(bytes[0]);
  const std::size_t documents = static_cast<unsigned char>(bytes[1]);
  if (kind > static_cast<unsigned char>(Kind::kFailed) || documents > bytes.size() - kHead)
    refuse();
  ProcessMessage message{static_cast<Kind>(kind), std::string(bytes.substr(kHead, documents)),
                         std::string(bytes.substr(kHead + documents))};
  if (message.kind == Kind::kFailed && message.content.empty())
    invalid_input("{}: a failure without a cause; all processes need the same version of SlimPack",
                  origin);
  return message;
}

std::optional<std::string> agreed_content(std::span<const ProcessMessage> all,
                                          std::string_view what) {
  if (const auto* failed = first_of(all, Kind::kFailed)) throw_failure(failed->content);
  if (const auto* stopped = first_of(all, Kind::kStopped)) throw Interrupted(stopped->content);
  if (first_of(all, Kind::kOutOfTime) != nullptr) return std::nullopt;
  const std::string& documents = all.front().documents;
  const auto other = std::ranges::find_if(
      all, [&](const ProcessMessage& message) { return message.documents != documents; });
  if (other != all.end())
    invalid_input(
        "{}: ranks 0 and {} have drawn different documents (checksums {} and {}); all processes "
        "need the same configuration, dataset and version of SlimPack",
        what, other - all.begin(), documents, other->documents);
  return all.front().content;
}

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
