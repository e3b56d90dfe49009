// Parts of a page as JSON: timelines in columns of numbers by rank, and the figures of a step and a
// run.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/training_curve.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The most that a page holds, so that a browser opens it at once. If a timeline has more spans,
/// the first ranks are drawn.
struct PageLimits {
  std::size_t spans = 200'000;
  std::size_t memory_times = 2'000;
};

/// {"origin", "ranks", "makespan_ns", "bubble", "worst_bubble", "peak_bytes", "rows": […]}. A row
/// is a rank: {"label", "busy_ns", "bubble", "peak_bytes", "kind", "pack", "stage", "start",
/// "length", "memory", "predicted"}. The last seven are those of ranks that are drawn and have a
/// number for each span, by start: its kind (SpanKind) and MicroPack; its stage of the pipeline;
/// nanoseconds since the start of the step; activation bytes of the rank at its start; what
/// `predicted` gives the same work, or −1. REQUIRES: timelines of one step with the same ranks;
/// spans of a rank do not overlap. Cost: O((spans + samples) log).
[[nodiscard]] nlohmann::ordered_json timeline_for_page(const Timeline& timeline,
                                                       const Timeline& predicted,
                                                       const PageLimits& limits = {});

/// Activation bytes over time by rank of the pipeline, on the fullest of its replicas and
/// tensor-parallel ranks: {"time": […], "ranks": [[bytes, …], …]}. Where more than
/// limits.memory_times moments have a change, each of so many equal intervals has its highest
/// value. Cost: O(samples · log + moments · ranks).
[[nodiscard]] nlohmann::ordered_json memory_for_page(const Timeline& timeline,
                                                     const PageLimits& limits = {});

/// By replica: {"forward": […], "backward": […]}, for each MicroPack the nanoseconds that all
/// stages spend on it together, on the first tensor-parallel rank of each.
[[nodiscard]] nlohmann::ordered_json loads_for_page(const Timeline& timeline, const StepPlan& plan);

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
/// "evaluated_step", "evaluation_loss", "evaluation_name"}, of at most `most` steps.
[[nodiscard]] nlohmann::ordered_json curve_for_page(const TrainingCurve& curve, std::size_t most);

/// By replica: {"forward": [[[sequence, begin, end], …], …], "backward": …}: the slices of every
/// MicroPack.
[[nodiscard]] nlohmann::ordered_json packs_for_page(const StepPlan& plan);

}  // namespace slimpack
