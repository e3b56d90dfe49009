// Chrome's trace event format, as Perfetto reads it: one JSON object. Its "traceEvents" are
// metadata (M), complete events (X), counters (C) and flow arrows (s, f).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "slimpack/base/json_text.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

namespace {

using Json = nlohmann::ordered_json;

double microseconds(Nanos t) {
  return static_cast<double>(t.count()) / 1000.0;
}

/// "F3" or "B3" as in a schedule's text; the kind's name for other spans.
std::string span_name(const Span& span) {
  constexpr std::string_view kPassLetters = "FBIW";  // in the order of SpanKind
  const auto kind = static_cast<std::size_t>(span.kind);
  if (kind < kPassLetters.size()) return fmt::format("{}{}", kPassLetters[kind], span.pack.value());
  return std::string(to_string(span.kind));
}

std::int32_t replica_of(std::int32_t rank, const Timeline& timeline) {
  return rank / (timeline.ranks / timeline.replicas);
}

/// The stages of each rank, ascending: those that its spans name, else the one of its number.
std::vector<std::set<std::int32_t>> stages_of_ranks(const Timeline& timeline) {
  std::vector<std::set<std::int32_t>> stages(static_cast<std::size_t>(timeline.ranks));
  for (const Span& span : timeline.spans)
    stages[static_cast<std::size_t>(span.rank)].insert(span.stage.value());
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank)
    if (auto& own = stages[static_cast<std::size_t>(rank)]; own.empty())
      own.insert(pipeline_rank(timeline, rank));
  return stages;
}

std::string thread_name(std::int32_t rank, const Timeline& timeline,
                        const std::set<std::int32_t>& stages) {
  std::string name = fmt::format("rank {}: replica {}, {} {}", rank, replica_of(rank, timeline),
                                 stages.size() > 1 ? "stages" : "stage", fmt::join(stages, ", "));
  if (timeline.tensor > 1) name += fmt::format(", tensor {}", rank % timeline.tensor);
  return name;
}

/// The texts of the span's MicroPack, or null if there are none.
const std::vector<std::string>* slices_of(const Span& span, std::int32_t replica,
                                          const std::vector<PackTexts>& replicas) {
  if (span.pack.value() < 0 || replicas.empty()) return nullptr;
  const PackTexts& texts = replicas.at(static_cast<std::size_t>(replica));
  switch (span.kind) {
    case SpanKind::kForward:
    case SpanKind::kEmbedding:
      return &texts.forward.at(span.pack.index());
    case SpanKind::kBackward:
    case SpanKind::kInputGradient:
    case SpanKind::kWeightGradient:
    case SpanKind::kHead:
    case SpanKind::kEmbeddingGradient:
      return &texts.backward.at(span.pack.index());
    case SpanKind::kOptimizer:
    case SpanKind::kReduce:
    case SpanKind::kWaitReceive:  // does not say for which pass
    case SpanKind::kWaitSend:
      return nullptr;
  }
  return nullptr;
}

Json metadata(std::string_view what, std::int64_t pid, std::int64_t tid, Json args) {
  return {{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", std::move(args)}};
}

void add_names(Json& events, const Timeline& timeline, std::int64_t pid) {
  events.push_back(metadata("process_name", pid, 0, {{"name", timeline.origin}}));
  events.push_back(metadata("process_sort_index", pid, 0, {{"sort_index", pid}}));
  const std::vector<std::set<std::int32_t>> stages = stages_of_ranks(timeline);
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank) {
    const std::string name = thread_name(rank, timeline, stages[static_cast<std::size_t>(rank)]);
    events.push_back(metadata("thread_name", pid, rank, {{"name", name}}));
    events.push_back(metadata("thread_sort_index", pid, rank, {{"sort_index", rank}}));
  }
}

void add_spans(Json& events, const Timeline& timeline, const std::vector<PackTexts>& replicas,
               std::int64_t pid) {
  for (const Span& span : timeline.spans) {
    const std::int32_t replica = replica_of(span.rank, timeline);
    Json args{{"replica", replica}, {"stage", span.stage.value()}};
    if (timeline.tensor > 1) args["tensor"] = span.rank % timeline.tensor;
    if (span.pack.value() >= 0) args["pack"] = span.pack.value();
    if (const auto* slices = slices_of(span, replica, replicas)) args["slices"] = *slices;
    Json event{{"name", span_name(span)},
               {"cat", to_string(span.kind)},
               {"ph", "X"},
               {"ts", microseconds(span.start)},
               {"dur", microseconds(span.end - span.start)},
               {"pid", pid},
               {"tid", span.rank},
               {"args", std::move(args)}};
    events.push_back(std::move(event));
  }
}

void add_memory(Json& events, const Timeline& timeline, std::int64_t pid) {
  for (const MemorySample& sample : timeline.memory)
    events.push_back({{"name", fmt::format("activations of rank {}", sample.rank)},
                      {"ph", "C"},
                      {"ts", microseconds(sample.time)},
                      {"pid", pid},
                      {"tid", sample.rank},
                      {"args", {{"bytes", sample.bytes.count()}}}});
}

/// Identifies the way of a pack's rows through the stages, forward or back. Each replica numbers
/// its packs separately, and rows stay with their tensor-parallel rank from stage to stage.
struct Passage {
  SpanKind way;
  PackId pack;
  std::int32_t replica, tensor;

  auto operator<=>(const Passage&) const = default;
};

/// Adds an arrow from each span of a passage to the next one, on another rank. Weight gradients
/// have none. A viewer attaches an arrow's end to the span around its time, so an arrow leaves just
/// before a span's end and arrives at a span's start.
void add_flows(Json& events, const Timeline& timeline, std::int64_t pid, std::int64_t& next_id) {
  std::map<Passage, std::vector<const Span*>> passages;
  const auto spans_of = [&](SpanKind way, const Span& span) -> std::vector<const Span*>& {
    return passages[{way, span.pack, replica_of(span.rank, timeline), span.rank % timeline.tensor}];
  };
  for (const Span& span : timeline.spans)
    if (span.kind == SpanKind::kForward)
      spans_of(SpanKind::kForward, span).push_back(&span);
    else if (span.kind == SpanKind::kBackward || span.kind == SpanKind::kInputGradient)
      spans_of(SpanKind::kBackward, span).push_back(&span);
  for (auto& [passage, spans] : passages) {
    std::ranges::stable_sort(spans, {}, [](const Span* span) { return span->start; });
    for (std::size_t i = 1; i < spans.size(); ++i) {
      const Span& from = *spans[i - 1];
      const Span& to = *spans[i];
      if (from.rank == to.rank) continue;
      const Nanos leaves = std::max(from.start, from.end - Nanos(1));
      const char letter = passage.way == SpanKind::kForward ? 'F' : 'B';
      const Json common{{"name", fmt::format("{}{}", letter, passage.pack.value())},
                        {"cat", "flow"},
                        {"id", next_id++},
                        {"pid", pid}};
      Json start = common;
      start.update({{"ph", "s"}, {"ts", microseconds(leaves)}, {"tid", from.rank}});
      Json finish = common;
      finish.update({{"ph", "f"}, {"bp", "e"}, {"ts", microseconds(to.start)}, {"tid", to.rank}});
      events.push_back(std::move(start));
      events.push_back(std::move(finish));
    }
  }
}

Json metrics_json(const Timeline& timeline) {
  const TimelineMetrics metrics = metrics_of(timeline);
  Json ranks = Json::array();
  for (const RankMetrics& rank : metrics.ranks)
    ranks.push_back({{"busy_us", microseconds(rank.busy)},
                     {"forward_us", microseconds(rank.forward)},
                     {"backward_us", microseconds(rank.backward)},
                     {"waiting_us", microseconds(rank.waiting)},
                     {"peak_activation_bytes", rank.peak_activation.count()}});
  return {{"origin", timeline.origin},
          {"makespan_us", microseconds(metrics.makespan)},
          {"bubble_ratio", metrics.bubble_ratio},
          {"worst_bubble", metrics.worst_bubble},
          {"ranks", std::move(ranks)}};
}

}  // namespace

std::string to_chrome_trace(const std::vector<Timeline>& timelines,
                            const std::vector<PackTexts>& replicas) {
  Json events = Json::array();
  Json metrics = Json::array();
  std::int64_t next_flow = 0;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    const auto pid = static_cast<std::int64_t>(i);
    add_names(events, timelines[i], pid);
    add_spans(events, timelines[i], replicas, pid);
    add_memory(events, timelines[i], pid);
    add_flows(events, timelines[i], pid, next_flow);
    metrics.push_back(metrics_json(timelines[i]));
  }
  const Json trace{{"displayTimeUnit", "ms"},
                   {"otherData", {{"timelines", std::move(metrics)}}},
                   {"traceEvents", std::move(events)}};
  return json_text(trace) + "\n";
}

}  // namespace slimpack
