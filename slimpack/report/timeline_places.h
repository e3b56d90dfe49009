// Where a timeline's ranks stand, and when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/trace/timeline.h"

namespace slimpack {

/// By rank: "replica 0 stage 1 tensor 3", without replica or tensor where there is one alone. A
/// rank of several stages is called rank.
[[nodiscard]] std::vector<std::string> rank_labels(const Timeline& timeline);

/// The start of the first span; 0 without spans.
[[nodiscard]] Nanos start_of(const Timeline& timeline);

}  // namespace slimpack
