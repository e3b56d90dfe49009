// Timelines that the tests of this folder share.
#pragma once

#include <rapidcheck.h>

#include <string>

#include "slimpack/trace/timeline.h"

namespace slimpack {

/// On the stage of the rank's number.
inline Span span(std::int32_t rank, SpanKind kind, std::int32_t pack, std::int64_t start,
                 std::int64_t end) {
  return {rank, kind, PackId(pack), StageId(rank), Nanos(start), Nanos(end)};
}

/// Two stages, two packs, forward 10 and backward 20 ns, no transfer times; starts at 100 ns.
///
///     rank 0  F0 F1 ~~~~~ B0B0 ~~ B1B1 O      (~ = waiting to receive)
///     rank 1  ~~ F0 B0B0 F1 B1B1 .. O
inline Timeline two_stages() {
  using K = SpanKind;
  Timeline t;
  t.origin = "predicted";
  t.ranks = 2;
  t.spans = {span(0, K::kForward, 0, 100, 110),     span(0, K::kForward, 1, 110, 120),
             span(0, K::kWaitReceive, 0, 120, 140), span(0, K::kBackward, 0, 140, 160),
             span(0, K::kWaitReceive, 1, 160, 170), span(0, K::kBackward, 1, 170, 190),
             span(0, K::kOptimizer, -1, 190, 200),  span(1, K::kWaitReceive, 0, 100, 110),
             span(1, K::kForward, 0, 110, 120),     span(1, K::kBackward, 0, 120, 140),
             span(1, K::kForward, 1, 140, 150),     span(1, K::kBackward, 1, 150, 170),
             span(1, K::kOptimizer, -1, 190, 200)};
  t.memory = {{0, Nanos(100), Bytes(7)},
              {0, Nanos(110), Bytes(14)},
              {0, Nanos(160), Bytes(7)},
              {1, Nanos(110), Bytes(9)}};
  return t;
}

/// Any valid timeline: per rank, spans one after the other with gaps.
inline rc::Gen<Timeline> any_timeline() {
  return rc::gen::exec([] {
    Timeline t;
    t.origin = *rc::gen::element<std::string>("predicted", "measured", "");
    t.ranks = *rc::gen::inRange(0, 5);
    for (std::int32_t rank = 0; rank < t.ranks; ++rank) {
      std::int64_t now = *rc::gen::inRange<std::int64_t>(0, 1000);
      const int count = *rc::gen::inRange(0, 8);
      for (int i = 0; i < count; ++i) {
        const auto kind = static_cast<SpanKind>(*rc::gen::inRange(0, 6));
        const std::int64_t start = now + *rc::gen::inRange<std::int64_t>(0, 50);
        now = start + *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
        t.spans.push_back(span(rank, kind, *rc::gen::inRange(-1, 9), start, now));
        t.spans.back().stage = StageId(*rc::gen::inRange(0, 9));
        t.memory.push_back(
            {rank, Nanos(now), Bytes(*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 40))});
      }
    }
    if (*rc::gen::arbitrary<bool>())
      for (std::int32_t rank = 0; rank < t.ranks; ++rank)
        t.peak_activation.push_back(Bytes(*rc::gen::inRange(0, 1 << 30)));
    return t;
  });
}

}  // namespace slimpack
