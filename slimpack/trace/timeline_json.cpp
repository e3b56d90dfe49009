#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/nearest.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "slimpack-timeline";
constexpr std::int64_t kVersion = 3;
constexpr std::int64_t kMaxRanks = 1 << 20;
// 104 days in nanoseconds: exact as a double.
constexpr std::int64_t kMaxNanos = std::int64_t{1} << 53;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;

constexpr std::array<SpanKind, 11> kKinds{
    SpanKind::kForward,           SpanKind::kBackward,  SpanKind::kInputGradient,
    SpanKind::kWeightGradient,    SpanKind::kEmbedding, SpanKind::kHead,
    SpanKind::kEmbeddingGradient, SpanKind::kOptimizer, SpanKind::kReduce,
    SpanKind::kWaitReceive,       SpanKind::kWaitSend};

SpanKind read_kind(const json& value, std::string_view where) {
  if (!value.is_string()) invalid_input("{}[1] must be a span kind in quotes", where);
  const std::string text = value.get<std::string>();
  std::vector<std::string_view> known;
  for (const SpanKind kind : kKinds) {
    if (to_string(kind) == text) return kind;
    known.push_back(to_string(kind));
  }
  invalid_input("{}[1] is \"{}\", which is no span kind; {}", where, text, suggestion(text, known));
}

/// An array of exactly `size` values.
const json& row(const json& value, std::size_t size, std::string_view where) {
  if (!value.is_array() || value.size() != size)
    invalid_input("{} must be an array of {} values", where, size);
  return value;
}

/// The sixth value is the stage; absent = that of the rank's number.
Span read_span(const json& value, const Timeline& timeline, const std::string& where) {
  const bool staged = value.is_array() && value.size() == 6;
  const json& r = row(value, staged ? 6 : 5, where);
  const auto integer = [&](std::size_t i, std::int64_t low, std::int64_t high) {
    return json_integer(r[i], fmt::format("{}[{}]", where, i), low, high);
  };
  const std::int64_t start = integer(3, 0, kMaxNanos);
  const auto rank = static_cast<std::int32_t>(integer(0, 0, timeline.ranks - 1));
  const std::int64_t stage = staged ? integer(5, 0, kMaxRanks) : pipeline_rank(timeline, rank);
  return {rank,
          read_kind(r[1], where),
          PackId(static_cast<std::int32_t>(integer(2, -1, INT32_MAX))),
          StageId(static_cast<std::int32_t>(stage)),
          Nanos(start),
          Nanos(integer(4, start, kMaxNanos))};
}

MemorySample read_sample(const json& value, std::int32_t ranks, const std::string& where) {
  const json& r = row(value, 3, where);
  const auto integer = [&](std::size_t i, std::int64_t high) {
    return json_integer(r[i], fmt::format("{}[{}]", where, i), 0, high);
  };
  return {static_cast<std::int32_t>(integer(0, ranks - 1)), Nanos(integer(1, kMaxNanos)),
          Bytes(integer(2, kMaxBytes))};
}

void check_overlaps(const Timeline& timeline, std::string_view origin) {
  std::vector<const Span*> order;
  for (const Span& span : timeline.spans)
    if (span.end > span.start) order.push_back(&span);
  std::ranges::sort(order, [](const Span* a, const Span* b) {
    return std::pair(a->rank, a->start) < std::pair(b->rank, b->start);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Span& before = *order[i - 1];
    const Span& after = *order[i];
    if (before.rank == after.rank && after.start < before.end)
      invalid_input(
          "{}: spans: rank {} has a {} from {} ns while its {} lasts until {} ns; a rank "
          "does one thing at a time",
          origin, after.rank, to_string(after.kind), after.start.count(), to_string(before.kind),
          before.end.count());
  }
}

}  // namespace

std::string timeline_to_json(const Timeline& timeline) {
  using Ordered = nlohmann::ordered_json;  // keys stay as they are written here
  Ordered spans = Ordered::array();
  for (const Span& span : timeline.spans) {
    Ordered& row = spans.emplace_back(Ordered{span.rank, to_string(span.kind), span.pack.value(),
                                              span.start.count(), span.end.count()});
    if (span.stage.value() != pipeline_rank(timeline, span.rank)) row.push_back(span.stage.value());
  }
  Ordered memory = Ordered::array();
  for (const MemorySample& sample : timeline.memory)
    memory.push_back({sample.rank, sample.time.count(), sample.bytes.count()});
  Ordered peaks = Ordered::array();
  for (const Bytes peak : timeline.peak_activation) peaks.push_back(peak.count());
  const Ordered out{{"format", kFormat},
                    {"version", kVersion},
                    {"origin", timeline.origin},
                    {"ranks", timeline.ranks},
                    {"replicas", timeline.replicas},
                    {"tensor", timeline.tensor},
                    {"spans", std::move(spans)},
                    {"memory", std::move(memory)},
                    {"peak_activation", std::move(peaks)}};
  return json_text(out) + "\n";
}

Timeline timeline_from_json(std::string_view text, std::string_view origin) {
  const json root = parse_json(text, origin);
  const JsonFields fields(root, std::string(origin));
  fields.require_format(kFormat, kVersion);
  Timeline timeline;
  timeline.origin = fields.text("origin");
  timeline.ranks = static_cast<std::int32_t>(fields.integer("ranks", 0, kMaxRanks));
  timeline.replicas = static_cast<std::int32_t>(fields.integer("replicas", 1, kMaxRanks));
  timeline.tensor = static_cast<std::int32_t>(fields.integer("tensor", 1, kMaxRanks));
  if (const std::int64_t pipelines = std::int64_t{timeline.replicas} * timeline.tensor;
      timeline.ranks % pipelines != 0)
    invalid_input("{}: {} ranks are no whole stages of replicas × tensor = {} × {}; check them",
                  origin, timeline.ranks, timeline.replicas, timeline.tensor);
  const auto where = [&](std::string_view field, std::size_t i) {
    return fmt::format("{}: {}[{}]", origin, field, i);
  };
  for (const json& span : fields.array("spans"))
    timeline.spans.push_back(read_span(span, timeline, where("spans", timeline.spans.size())));
  for (const json& sample : fields.array("memory"))
    timeline.memory.push_back(
        read_sample(sample, timeline.ranks, where("memory", timeline.memory.size())));
  for (const json& peak : fields.array("peak_activation"))
    timeline.peak_activation.push_back(Bytes(json_integer(
        peak, where("peak_activation", timeline.peak_activation.size()), 0, kMaxBytes)));
  if (const std::size_t peaks = timeline.peak_activation.size();
      peaks != 0 && peaks != static_cast<std::size_t>(timeline.ranks))
    invalid_input("{}: peak_activation has {} values for {} ranks; give one per rank or none",
                  origin, peaks, timeline.ranks);
  check_overlaps(timeline, origin);
  return timeline;
}

}  // namespace slimpack
