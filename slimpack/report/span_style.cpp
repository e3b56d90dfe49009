#include "slimpack/report/span_style.h"

#include <fmt/format.h>

#include <algorithm>

namespace slimpack {

SpanStyle style_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return {"forward", "#2f7fc1"};
    case SpanKind::kBackward:
      return {"backward", "#e8912d"};
    case SpanKind::kInputGradient:
      return {"input gradients", "#e8912d"};
    case SpanKind::kWeightGradient:
      return {"weight gradients", "#f2cf5b"};
    case SpanKind::kEmbedding:
      return {"embedding", "#7cc4ee"};
    case SpanKind::kHead:
      return {"head and loss", "#c1440e"};
    case SpanKind::kEmbeddingGradient:
      return {"embedding gradient", "#e8b4a0"};
    case SpanKind::kOptimizer:
      return {"optimizer", "#12997a"};
    case SpanKind::kReduce:
      return {"reduction", "#b877b5"};
    case SpanKind::kWaitReceive:
      return {"waits for its input", ""};
    case SpanKind::kWaitSend:
      return {"waits for the receiver", ""};
  }
  return {};
}

std::vector<SpanKind> drawn_kinds() {
  return {SpanKind::kForward,           SpanKind::kBackward,  SpanKind::kInputGradient,
          SpanKind::kWeightGradient,    SpanKind::kEmbedding, SpanKind::kHead,
          SpanKind::kEmbeddingGradient, SpanKind::kReduce,    SpanKind::kOptimizer};
}

std::vector<std::string> rank_labels(const Timeline& timeline) {
  const bool several_stages = std::ranges::any_of(timeline.spans, [&](const Span& span) {
    return span.stage.value() != pipeline_rank(timeline, span.rank);
  });
  std::vector<std::string> labels;
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank) {
    std::string& label = labels.emplace_back();
    if (timeline.replicas > 1)
      label += fmt::format("replica {} ", rank / (timeline.ranks / timeline.replicas));
    label += fmt::format("{} {}", several_stages ? "rank" : "stage", pipeline_rank(timeline, rank));
    if (timeline.tensor > 1) label += fmt::format(" tensor {}", rank % timeline.tensor);
  }
  return labels;
}

Nanos start_of(const Timeline& timeline) {
  if (timeline.spans.empty()) return Nanos(0);
  return std::ranges::min(timeline.spans, {}, &Span::start).start;
}

}  // namespace slimpack
