#include "slimpack/planner/measured_work.h"

namespace slimpack {

std::map<Work, double> busy_durations(const Timeline& timeline) {
  std::map<Work, double> lasted;
  for (const Span& span : timeline.spans)
    if (is_busy(span.kind))
      lasted[{span.rank, span.kind, span.pack}] +=
          static_cast<double>((span.end - span.start).count());
  return lasted;
}

}  // namespace slimpack
