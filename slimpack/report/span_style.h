// How pictures and pages name and colour what ranks do, and where a timeline's ranks stand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/trace/timeline.h"

namespace slimpack {

struct SpanStyle {
  std::string_view title;   ///< for legends: "weight gradients"
  std::string_view colour;  ///< "#rrggbb"; empty = a wait, which is not drawn
};

/// Colours that also people with colour blindness tell apart (after Okabe and Ito), on white and on
/// black.
[[nodiscard]] SpanStyle style_of(SpanKind kind);

/// The kinds that pictures draw, in the order of legends: all but waits.
[[nodiscard]] std::vector<SpanKind> drawn_kinds();

/// By rank: "replica 0 stage 1 tensor 3", without replica or tensor where there is one alone. A
/// rank of several stages is called rank.
[[nodiscard]] std::vector<std::string> rank_labels(const Timeline& timeline);

/// The start of the first span; 0 without spans.
[[nodiscard]] Nanos start_of(const Timeline& timeline);

}  // namespace slimpack
