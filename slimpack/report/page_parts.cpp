#include "slimpack/report/page_parts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "slimpack/data/lengths.h"
#include "slimpack/planner/replay.h"
#include "slimpack/planner/step_errors.h"
#include "slimpack/report/span_style.h"

namespace slimpack {
namespace {

using Json = nlohmann::ordered_json;

template <class Item>
std::vector<std::vector<const Item*>> by_rank(const std::vector<Item>& items, std::int32_t ranks) {
  std::vector<std::vector<const Item*>> result(static_cast<std::size_t>(ranks));
  for (const Item& item : items) result[static_cast<std::size_t>(item.rank)].push_back(&item);
  return result;
}

/// The bytes of the last sample at or before each moment of ascending ones; 0 before the first.
class BytesAt {
 public:
  explicit BytesAt(std::vector<const MemorySample*> samples) : samples_(std::move(samples)) {
    std::ranges::stable_sort(samples_, {}, [](const MemorySample* s) { return s->time; });
  }
  std::int64_t operator()(Nanos moment) {
    while (next_ < samples_.size() && samples_[next_]->time <= moment)
      bytes_ = samples_[next_++]->bytes.count();
    return bytes_;
  }

 private:
  std::vector<const MemorySample*> samples_;
  std::size_t next_ = 0;
  std::int64_t bytes_ = 0;
};

Json row_of(const Timeline& timeline, std::vector<const Span*> spans,
            std::vector<const MemorySample*> samples, const std::map<Work, double>& predicted) {
  std::ranges::stable_sort(spans, {}, [](const Span* span) { return span->start; });
  BytesAt bytes_at(std::move(samples));
  const Nanos zero = start_of(timeline);
  Json kind = Json::array(), pack = Json::array(), stage = Json::array(), start = Json::array(),
       length = Json::array(), memory = Json::array(), expected = Json::array();
  for (const Span* span : spans) {
    const auto found = predicted.find({span->rank, span->kind, span->stage, span->pack});
    kind.push_back(static_cast<int>(span->kind));
    pack.push_back(span->pack.value());
    stage.push_back(span->stage.value());
    start.push_back((span->start - zero).count());
    length.push_back((span->end - span->start).count());
    memory.push_back(bytes_at(span->start));
    expected.push_back(found == predicted.end() ? -1 : static_cast<std::int64_t>(found->second));
  }
  return {{"kind", std::move(kind)},         {"pack", std::move(pack)},
          {"stage", std::move(stage)},       {"start", std::move(start)},
          {"length", std::move(length)},     {"memory", std::move(memory)},
          {"predicted", std::move(expected)}};
}

std::int64_t highest_peak(const TimelineMetrics& metrics) {
  std::int64_t highest = 0;
  for (const RankMetrics& rank : metrics.ranks)
    highest = std::max(highest, rank.peak_activation.count());
  return highest;
}

/// The pass on whose MicroPack a span works; nullopt for other work and waits.
std::optional<Pass> pass_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
    case SpanKind::kEmbedding:
      return Pass::kForward;
    case SpanKind::kBackward:
    case SpanKind::kInputGradient:
    case SpanKind::kWeightGradient:
    case SpanKind::kHead:
    case SpanKind::kEmbeddingGradient:
      return Pass::kBackward;
    case SpanKind::kOptimizer:
    case SpanKind::kReduce:
    case SpanKind::kWaitReceive:
    case SpanKind::kWaitSend:
      return std::nullopt;
  }
  return std::nullopt;
}

/// The moments at which a page shows memory: all that change it, or the ends of equal intervals.
std::vector<Nanos> moments_of(const Timeline& timeline, std::size_t most) {
  std::vector<Nanos> moments;
  for (const MemorySample& sample : timeline.memory) moments.push_back(sample.time);
  std::ranges::sort(moments);
  moments.erase(std::ranges::unique(moments).begin(), moments.end());
  if (moments.size() <= most) return moments;
  const Nanos first = moments.front();
  const auto width = static_cast<double>((moments.back() - first).count());
  moments.clear();
  for (std::size_t i = 0; i < most; ++i)
    moments.push_back(first + Nanos(static_cast<std::int64_t>(width * static_cast<double>(i) /
                                                              static_cast<double>(most))));
  return moments;
}

/// Raises bytes[i] to the highest value from moments[i] until the next moment.
void raise(std::vector<std::int64_t>& bytes, const std::vector<Nanos>& moments,
           std::vector<const MemorySample*> samples) {
  std::ranges::stable_sort(samples, {}, [](const MemorySample* s) { return s->time; });
  std::size_t next = 0;
  std::int64_t now = 0;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    // Counts the bytes after all samples of the moment, and every value that is reached before the
    // next moment.
    for (; next < samples.size() && samples[next]->time <= moments[i]; ++next)
      now = samples[next]->bytes.count();
    bytes[i] = std::max(bytes[i], now);
    const bool last = i + 1 == moments.size();
    for (; next < samples.size() && (last || samples[next]->time < moments[i + 1]); ++next) {
      now = samples[next]->bytes.count();
      bytes[i] = std::max(bytes[i], now);
    }
  }
}

}  // namespace

Json timeline_for_page(const Timeline& timeline, const Timeline& predicted,
                       const PageLimits& limits) {
  const TimelineMetrics metrics = metrics_of(timeline);
  const std::map<Work, double> durations = busy_durations(predicted);
  auto spans = by_rank(timeline.spans, timeline.ranks);
  auto samples = by_rank(timeline.memory, timeline.ranks);
  const double makespan = std::max(to_seconds(metrics.makespan), 1e-9);
  const std::vector<std::string> labels = rank_labels(timeline);
  Json rows = Json::array();
  std::size_t drawn = 0;
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    drawn += spans[r].size();
    Json row{{"label", labels[r]},
             {"busy_ns", metrics.ranks[r].busy.count()},
             {"bubble", 1 - to_seconds(metrics.ranks[r].busy) / makespan},
             {"peak_bytes", metrics.ranks[r].peak_activation.count()}};
    if (rank == 0 || drawn <= limits.spans)
      row.update(row_of(timeline, std::move(spans[r]), std::move(samples[r]), durations));
    rows.push_back(std::move(row));
  }
  return {{"origin", timeline.origin},
          {"ranks", timeline.ranks},
          {"makespan_ns", metrics.makespan.count()},
          {"bubble", metrics.bubble_ratio},
          {"worst_bubble", metrics.worst_bubble},
          {"peak_bytes", highest_peak(metrics)},
          {"rows", std::move(rows)}};
}

Json memory_for_page(const Timeline& timeline, const PageLimits& limits) {
  const std::vector<Nanos> moments = moments_of(timeline, limits.memory_times);
  std::vector<std::vector<std::int64_t>> bytes(static_cast<std::size_t>(pipeline_ranks(timeline)),
                                               std::vector<std::int64_t>(moments.size(), 0));
  auto samples = by_rank(timeline.memory, timeline.ranks);
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank)
    raise(bytes[static_cast<std::size_t>(pipeline_rank(timeline, rank))], moments,
          std::move(samples[static_cast<std::size_t>(rank)]));
  Json time = Json::array();
  for (const Nanos moment : moments) time.push_back((moment - start_of(timeline)).count());
  return {{"time", std::move(time)}, {"ranks", bytes}};
}

Json loads_for_page(const Timeline& timeline, const StepPlan& plan) {
  struct Loads {
    std::vector<std::int64_t> forward, backward;
  };
  std::vector<Loads> replicas;
  for (const ReplicaPlan& replica : plan.replicas)
    replicas.push_back({std::vector<std::int64_t>(replica.packs.forward.size(), 0),
                        std::vector<std::int64_t>(replica.packs.backward.size(), 0)});
  for (const Span& span : timeline.spans) {
    const std::optional<Pass> pass = pass_of(span.kind);
    if (!pass || span.rank % timeline.tensor != 0) continue;
    Loads& loads =
        replicas.at(static_cast<std::size_t>(span.rank / (timeline.ranks / timeline.replicas)));
    (pass == Pass::kForward ? loads.forward : loads.backward).at(span.pack.index()) +=
        (span.end - span.start).count();
  }
  Json out = Json::array();
  for (Loads& loads : replicas)
    out.push_back({{"forward", std::move(loads.forward)}, {"backward", std::move(loads.backward)}});
  return out;
}

namespace {

using Json = nlohmann::ordered_json;

Json slices_of(const std::vector<MicroPack>& packs) {
  Json out = Json::array();
  for (const MicroPack& pack : packs) {
    Json& slices = out.emplace_back(Json::array());
    for (const Slice& slice : pack.slices)
      slices.push_back({slice.sequence.value(), slice.begin.count(), slice.end.count()});
  }
  return out;
}

}  // namespace

Json largest_errors(const Timeline& predicted, const Timeline& measured, std::size_t most) {
  Json out = Json::array();
  for (const ActionError& action : largest_action_errors(predicted, {&measured, 1}, most)) {
    const auto& [rank, kind, stage, pack] = action.work;
    out.push_back({{"rank", rank},
                   {"kind", static_cast<int>(kind)},
                   {"stage", stage.value()},
                   {"pack", pack.value()},
                   {"predicted_ns", action.predicted.count()},
                   {"measured_ns", action.measured.count()}});
  }
  return out;
}

Json lengths_for_page(const SequenceLengths& lengths) {
  const LengthStatistics statistics = length_statistics(lengths);
  Json out = Json::array();
  for (const LengthBin& bin : statistics.histogram)
    out.push_back({{"low", bin.low.count()},
                   {"high", std::min(bin.high, statistics.max).count()},
                   {"count", bin.count},
                   {"token_share", bin.token_share},
                   {"attention_share", bin.attention_share}});
  return out;
}

Json curve_for_page(const TrainingCurve& curve, std::size_t most) {
  Json out{{"step", Json::array()},
           {"loss", Json::array()},
           {"tokens_per_second", Json::array()},
           {"step_ns", Json::array()},
           {"predicted_ns", Json::array()},
           {"evaluated_step", Json::array()},
           {"evaluation_loss", Json::array()},
           {"evaluation_name", Json::array()}};
  for (const CurvePoint& point : thinned(curve.steps, most)) {
    out["step"].push_back(point.step);
    out["loss"].push_back(point.loss);
    out["tokens_per_second"].push_back(point.tokens_per_second);
    out["step_ns"].push_back(point.step_time.count());
    out["predicted_ns"].push_back(point.predicted_time.count());
  }
  for (const CurveEvaluation& evaluation : curve.evaluations) {
    out["evaluated_step"].push_back(evaluation.step);
    out["evaluation_loss"].push_back(evaluation.loss);
    out["evaluation_name"].push_back(evaluation.name);
  }
  return out;
}

Json packs_for_page(const StepPlan& plan) {
  Json out = Json::array();
  for (const ReplicaPlan& replica : plan.replicas)
    out.push_back({{"forward", slices_of(replica.packs.forward)},
                   {"backward", slices_of(replica.packs.backward)}});
  return out;
}

}  // namespace slimpack
