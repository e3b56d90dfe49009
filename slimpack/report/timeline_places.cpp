#include "slimpack/report/timeline_places.h"

#include <fmt/format.h>

#include <algorithm>

namespace slimpack {

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
