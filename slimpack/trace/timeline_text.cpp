#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "slimpack/base/error.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

namespace {

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

  const std::size_t label = fmt::formatted_size("{}", std::max(timeline.ranks - 1, 0));
  std::string text;
  for (std::size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    text += fmt::format("rank {:>{}} |", rank, label);
    for (std::size_t c = 0; c < columns; ++c) text += letter(cells[rank * columns + c]);
    text += "|\n";
  }
  return text;
}

}  // namespace slimpack
