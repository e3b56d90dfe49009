#include "slimpack/report/measured_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"

namespace slimpack {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "slimpack-measured-step";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMost = std::int64_t{1} << 53;

DocumentSequence sequence_from(const json& row, const std::string& where) {
  if (!row.is_array() || row.size() != 3)
    invalid_input("{} must be [document, begin, length]", where);
  return {static_cast<std::size_t>(json_integer(row[0], where + "[0]", 0, kMost)),
          Tokens(json_integer(row[1], where + "[1]", 0, kMost)),
          Tokens(json_integer(row[2], where + "[2]", 1, kMost))};
}

/// The MicroPacks that a span of this kind may name.
std::size_t packs_of(const ReplicaPlan& replica, SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
    case SpanKind::kEmbedding:
      return replica.packs.forward.size();
    case SpanKind::kBackward:
    case SpanKind::kInputGradient:
    case SpanKind::kWeightGradient:
    case SpanKind::kHead:
    case SpanKind::kEmbeddingGradient:
      return replica.packs.backward.size();
    case SpanKind::kOptimizer:
    case SpanKind::kReduce:
      return 0;
    case SpanKind::kWaitReceive:
    case SpanKind::kWaitSend:
      return std::max(replica.packs.forward.size(), replica.packs.backward.size());
  }
  return 0;
}

}  // namespace

std::string measured_step_to_json(const MeasuredStep& step) {
  using Json = nlohmann::ordered_json;
  Json sequences = Json::array();
  for (const DocumentSequence& s : step.sequences)
    sequences.push_back({s.document, s.begin.count(), s.length.count()});
  Json json{{"format", kFormat},
            {"version", kVersion},
            {"step", step.step},
            {"clock", to_string(step.clock)},
            {"device", step.device},
            {"planner", step.planner},
            {"sequences", std::move(sequences)},
            {"timeline", Json::parse(timeline_to_json(step.timeline))}};
  if (step.compared) json["compared"] = to_json(*step.compared);
  return json_text(json) + "\n";
}

MeasuredStep measured_step_from_json(std::string_view text, std::string_view origin) {
  const json root = parse_json(text, origin);
  const JsonFields fields(root, std::string(origin));
  fields.require_format(kFormat, kVersion);
  MeasuredStep step;
  step.step = fields.integer("step", 1, kMost);
  step.clock = clock_field(fields);
  step.device = fields.text("device");
  step.planner = fields.text("planner");
  for (const json& row : fields.array("sequences"))
    step.sequences.push_back(
        sequence_from(row, fmt::format("{}: sequences[{}]", origin, step.sequences.size())));
  step.timeline =
      timeline_from_json(json_text(fields.at("timeline")), fmt::format("{}: timeline", origin));
  if (fields.has("compared")) step.compared = compared_turns_from(fields.object("compared"));
  return step;
}

void require_measured_of(const StepPlan& plan, const MeasuredStep& step, std::string_view origin) {
  const auto refuse = [&](std::string_view what) {
    invalid_input("{}: {}; both files must be of the same step: train again", origin, what);
  };
  const Timeline& timeline = step.timeline;
  if (!std::ranges::equal(step.sequences, plan.lengths, {}, &DocumentSequence::length))
    refuse("its sequences are not those of the plan");
  if (timeline.replicas != static_cast<std::int32_t>(plan.replicas.size()) ||
      std::int64_t{timeline.replicas} * plan.layout.ranks() * timeline.tensor != timeline.ranks)
    refuse("its ranks are not those of the plan");
  for (const Span& span : timeline.spans) {
    const auto replica = static_cast<std::size_t>(span.rank / (timeline.ranks / timeline.replicas));
    const std::size_t packs = packs_of(plan.replicas[replica], span.kind);
    const bool none = !is_busy(span.kind) || packs == 0;  // a span that may be of no MicroPack
    if (span.pack.value() < 0 ? !none : span.pack.index() >= packs)
      refuse(fmt::format("its timeline has a {} of MicroPack {}, which the plan lacks",
                         to_string(span.kind), span.pack.value()));
  }
}

}  // namespace slimpack
