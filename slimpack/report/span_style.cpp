#include "slimpack/report/span_style.h"

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

}  // namespace slimpack
