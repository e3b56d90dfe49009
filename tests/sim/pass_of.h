// The pass that a span of a timeline shows.
#pragma once

#include <optional>

#include "slimpack/schedule/schedule.h"
#include "slimpack/trace/timeline.h"

namespace slimpack::testing {

/// nullopt for spans that show no action.
inline std::optional<Pass> pass_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return Pass::kForward;
    case SpanKind::kBackward:
      return Pass::kBackward;
    case SpanKind::kInputGradient:
      return Pass::kInputGradient;
    case SpanKind::kWeightGradient:
      return Pass::kWeightGradient;
    case SpanKind::kEmbedding:
      return Pass::kEmbedding;
    case SpanKind::kHead:
      return Pass::kHead;
    case SpanKind::kEmbeddingGradient:
      return Pass::kEmbeddingGradient;
    default:
      return std::nullopt;
  }
}

}  // namespace slimpack::testing
