// The figures of a report: planned beside measured.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "slimpack/plan/slice.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/training_curve.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The `most` works (planner/replay.h) whose measured time differs most from the predicted one, the
/// largest difference first, then by rank and start: [{"rank", "kind", "stage", "pack",
/// "predicted_ns", "measured_ns"}]. "stage" is the rank's own. Work that only one of the two has is
/// left out. REQUIRES: timelines with the same ranks.
[[nodiscard]] nlohmann::ordered_json largest_errors(const Timeline& predicted,
                                                    const Timeline& measured, std::size_t most);

/// The step's sequences by length, as length_statistics bins them: [{"low", "high", "count",
/// "token_share", "attention_share"}]. The last bin ends with the longest sequence.
[[nodiscard]] nlohmann::ordered_json lengths_for_page(const SequenceLengths& lengths);

/// Loss and speed in columns: {"step", "loss", "tokens_per_second", "step_ns", "predicted_ns",
/// "evaluated_step", "evaluation_loss"}, of at most `most` steps.
[[nodiscard]] nlohmann::ordered_json curve_for_page(const TrainingCurve& curve, std::size_t most);

/// By replica: {"forward": [[[sequence, begin, end], …], …], "backward": …}: the slices of every
/// MicroPack.
[[nodiscard]] nlohmann::ordered_json packs_for_page(const StepPlan& plan);

}  // namespace slimpack
