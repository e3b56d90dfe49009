#include "slimpack/trace/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

RankMetrics& rank_of(std::vector<RankMetrics>& ranks, std::int32_t rank) {
  SLIMPACK_CHECK(rank >= 0 && static_cast<std::size_t>(rank) < ranks.size(), "rank {}", rank);
  return ranks[static_cast<std::size_t>(rank)];
}

bool is_backward(SpanKind kind) {
  return kind == SpanKind::kBackward || kind == SpanKind::kInputGradient ||
         kind == SpanKind::kWeightGradient || kind == SpanKind::kHead ||
         kind == SpanKind::kEmbeddingGradient;
}

void add_span(RankMetrics& rank, const Span& span) {
  const Nanos duration = span.end - span.start;
  SLIMPACK_CHECK(duration >= Nanos(0), "span from {} to {}", span.start.count(), span.end.count());
  (is_busy(span.kind) ? rank.busy : rank.waiting) += duration;
  if (span.kind == SpanKind::kForward || span.kind == SpanKind::kEmbedding)
    rank.forward += duration;
  if (is_backward(span.kind)) rank.backward += duration;
  if (span.kind == SpanKind::kOptimizer) rank.optimizer += duration;
  if (span.kind == SpanKind::kReduce) rank.reduction += duration;
}

double bubble(double busy_ns, double available_ns) {
  return available_ns > 0 ? 1.0 - busy_ns / available_ns : 0.0;
}

// The letters of the busy kinds, which come first in SpanKind.
constexpr std::string_view kLetters = "FBIWEHGOR";
/// Nanoseconds of a cell by busy kind. Real numbers: cells seldom start on whole nanoseconds.
using Cell = std::array<double, kLetters.size()>;

/// Adds the part of each cell that [start, end), measured in cells, covers.
void cover(std::span<Cell> cells, SpanKind kind, double start, double end) {
  for (auto c = static_cast<std::size_t>(start); c < cells.size(); ++c) {
    const auto low = static_cast<double>(c);
    if (low >= end) break;
    cells[c][static_cast<std::size_t>(kind)] += std::min(end, low + 1) - std::max(start, low);
  }
}

char letter(const Cell& cell) {
  constexpr double kHalf = 0.5 - 1e-9;  // exact halves count in spite of rounding
  double busy = 0;
  for (const double share : cell) busy += share;
  if (busy < kHalf) return '.';
  return kLetters[static_cast<std::size_t>(std::max_element(cell.begin(), cell.end()) -
                                           cell.begin())];
}

}  // namespace

std::string_view to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "forward";
    case SpanKind::kBackward:
      return "backward";
    case SpanKind::kInputGradient:
      return "input_gradient";
    case SpanKind::kWeightGradient:
      return "weight_gradient";
    case SpanKind::kEmbedding:
      return "embedding";
    case SpanKind::kHead:
      return "head";
    case SpanKind::kEmbeddingGradient:
      return "embedding_gradient";
    case SpanKind::kOptimizer:
      return "optimizer";
    case SpanKind::kReduce:
      return "reduce";
    case SpanKind::kWaitReceive:
      return "wait_receive";
    case SpanKind::kWaitSend:
      return "wait_send";
  }
  SLIMPACK_CHECK(false, "span kind {}", static_cast<int>(kind));
  return {};
}

TimelineMetrics metrics_of(const Timeline& timeline) {
  TimelineMetrics metrics;
  metrics.ranks.resize(static_cast<std::size_t>(timeline.ranks));
  if (!timeline.spans.empty()) {
    Nanos first = timeline.spans.front().start;
    Nanos last = timeline.spans.front().end;
    for (const Span& span : timeline.spans) {
      add_span(rank_of(metrics.ranks, span.rank), span);
      first = std::min(first, span.start);
      last = std::max(last, span.end);
    }
    metrics.makespan = last - first;
  }

  const auto makespan = static_cast<double>(metrics.makespan.count());
  double busy_ns = 0;  // the sum over many ranks can exceed 64 bits
  for (const RankMetrics& rank : metrics.ranks) {
    const auto own_ns = static_cast<double>(rank.busy.count());
    busy_ns += own_ns;
    metrics.worst_bubble = std::max(metrics.worst_bubble, bubble(own_ns, makespan));
  }
  metrics.bubble_ratio = bubble(busy_ns, makespan * timeline.ranks);

  if (timeline.peak_activation.empty()) {
    for (const MemorySample& sample : timeline.memory) {
      Bytes& peak = rank_of(metrics.ranks, sample.rank).peak_activation;
      peak = std::max(peak, sample.bytes);
    }
  } else {
    SLIMPACK_CHECK(timeline.peak_activation.size() == metrics.ranks.size());
    for (std::size_t r = 0; r < metrics.ranks.size(); ++r)
      metrics.ranks[r].peak_activation = timeline.peak_activation[r];
  }
  return metrics;
}

double model_flops_utilization(Flops model_flops, const TimelineMetrics& metrics,
                               double peak_flops_per_second) {
  SLIMPACK_CHECK(peak_flops_per_second > 0, "peak {}", peak_flops_per_second);
  const double available = to_seconds(metrics.makespan) *
                           static_cast<double>(metrics.ranks.size()) * peak_flops_per_second;
  return available > 0 ? model_flops.count() / available : 0.0;
}

Timeline with_tensor_ranks(const Timeline& timeline, std::int32_t tensor) {
  SLIMPACK_CHECK(timeline.tensor == 1 && tensor >= 1, "{} ranks of a stage", tensor);
  Timeline result;
  result.origin = timeline.origin;
  result.ranks = timeline.ranks * tensor;
  result.replicas = timeline.replicas;
  result.tensor = tensor;
  const auto add = [&](auto& to, const auto& from) {
    for (auto one : from) {
      const std::int32_t first = one.rank * tensor;
      for (one.rank = first; one.rank < first + tensor; ++one.rank) to.push_back(one);
    }
  };
  add(result.spans, timeline.spans);
  add(result.memory, timeline.memory);
  for (const Bytes peak : timeline.peak_activation)
    result.peak_activation.insert(result.peak_activation.end(), static_cast<std::size_t>(tensor),
                                  peak);
  return result;
}

std::int32_t pipeline_ranks(const Timeline& timeline) {
  return std::max(timeline.ranks / timeline.replicas / timeline.tensor, 1);
}

std::int32_t pipeline_rank(const Timeline& timeline, std::int32_t rank) {
  return rank / timeline.tensor % pipeline_ranks(timeline);
}

std::string to_text(const Timeline& timeline, int width) {
  SLIMPACK_CHECK(width > 0, "width {}", width);
  const auto columns = static_cast<std::size_t>(width);
  const TimelineMetrics metrics = metrics_of(timeline);
  Nanos first;
  if (!timeline.spans.empty()) first = std::ranges::min(timeline.spans, {}, &Span::start).start;
  const double cells_per_nano =
      metrics.makespan > Nanos(0) ? width / static_cast<double>(metrics.makespan.count()) : 0;

  std::vector<Cell> cells(columns * metrics.ranks.size());
  for (const Span& span : timeline.spans) {
    if (!is_busy(span.kind)) continue;
    const auto row =
        std::span(cells).subspan(static_cast<std::size_t>(span.rank) * columns, columns);
    cover(row, span.kind, static_cast<double>((span.start - first).count()) * cells_per_nano,
          static_cast<double>((span.end - first).count()) * cells_per_nano);
  }

  const std::size_t label = std::to_string(std::max(timeline.ranks - 1, 0)).size();
  std::string text;
  for (std::size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    text += fmt::format("rank {:>{}} |", rank, label);
    for (std::size_t c = 0; c < columns; ++c) text += letter(cells[rank * columns + c]);
    text += "|\n";
  }
  return text;
}

}  // namespace slimpack
