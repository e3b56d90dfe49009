// Measured work: how long ranks took for each thing that they do in a step.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "slimpack/base/units.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// What a rank does in a step: all spans of the same kind and MicroPack.
using Work = std::tuple<std::int32_t, SpanKind, PackId>;

/// By work of a timeline, in ns. Waits are none. Cost: O(spans · log(spans)).
[[nodiscard]] std::map<Work, double> busy_durations(const Timeline& timeline);

}  // namespace slimpack
