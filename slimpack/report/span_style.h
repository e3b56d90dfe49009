// How pictures and pages name and colour what ranks do.
#pragma once

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

}  // namespace slimpack
