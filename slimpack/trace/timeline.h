// Timeline: what every rank did when. The simulator predicts one, and the runtime measures one. The
// same metrics and the same viewer serve both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// The kinds of a rank's time. Busy kinds count as work; waits are shown but do not count.
enum class SpanKind : std::uint8_t {
  kForward,
  kBackward,        ///< whole
  kInputGradient,   ///< of a split backward
  kWeightGradient,  ///< of a split backward
  kEmbedding,       ///< of a vocabulary that is spread over the pipeline, as the next two
  kHead,            ///< with the loss, both passes
  kEmbeddingGradient,
  kOptimizer,    ///< gradient norm, clipping, parameter update
  kReduce,       ///< gradient reduction between ranks
  kWaitReceive,  ///< waiting for activations or their gradients to arrive
  kWaitSend,     ///< waiting for a free buffer at the receiver
};

[[nodiscard]] std::string_view to_string(SpanKind kind);
[[nodiscard]] constexpr bool is_busy(SpanKind kind) {
  return kind != SpanKind::kWaitReceive && kind != SpanKind::kWaitSend;
}

/// [start, end) on one rank, from the start of the step. `pack` is the MicroPack of forward and
/// backward spans and of the waits for them; PackId(-1) elsewhere.
struct Span {
  std::int32_t rank = 0;
  SpanKind kind = SpanKind::kForward;
  PackId pack{-1};
  StageId stage{0};  ///< where the work belongs to no stage: the rank's first
  Nanos start;
  Nanos end;

  bool operator==(const Span&) const = default;
};

/// Activation bytes alive on one rank from `time` on.
struct MemorySample {
  std::int32_t rank = 0;
  Nanos time;
  Bytes bytes;

  bool operator==(const MemorySample&) const = default;
};

/// Spans in any order; at most one busy or waiting span at a time per rank. Rank
/// (replica · stages + stage) · tensor + t is tensor-parallel rank t of that replica's stage.
struct Timeline {
  std::string origin;  ///< "predicted" or "measured"
  std::int32_t ranks = 0;
  std::int32_t replicas = 1;
  std::int32_t tensor = 1;  ///< ranks of a stage; replicas · tensor divides `ranks`
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
  std::vector<Bytes> peak_activation;  ///< by rank; empty when not known

  bool operator==(const Timeline&) const = default;
};

struct RankMetrics {
  Nanos busy;
  Nanos forward;
  Nanos backward;  ///< whole or in parts
  Nanos optimizer;
  Nanos reduction;  ///< of gradients
  Nanos waiting;
  Bytes peak_activation;
};

struct TimelineMetrics {
  Nanos makespan;           ///< last end − first start over all ranks
  double bubble_ratio = 0;  ///< 1 − busy / (ranks × makespan)
  double worst_bubble = 0;  ///< bubble ratio of the least busy rank
  std::vector<RankMetrics> ranks;
};

/// Peaks come from peak_activation or, if that is empty, from the memory samples. The bubble of an
/// empty timeline is 0.
/// REQUIRES: ranks of spans and samples in [0, timeline.ranks). Cost: O(spans + samples).
[[nodiscard]] TimelineMetrics metrics_of(const Timeline& timeline);

/// Model FLOPs ÷ (makespan × ranks × peak FLOP/s per rank); recomputation is not model work. 0 for
/// an empty timeline. REQUIRES: peak_flops_per_second > 0.
[[nodiscard]] double model_flops_utilization(Flops model_flops, const TimelineMetrics& metrics,
                                             double peak_flops_per_second);

/// The timeline with each rank replaced by `tensor` ranks that all do the same.
/// REQUIRES: timeline.tensor == 1, tensor >= 1.
[[nodiscard]] Timeline with_tensor_ranks(const Timeline& timeline, std::int32_t tensor);

/// The slices of one replica's MicroPacks in words, by PackId: a text for each slice, such as
/// "document 812 [0, 4096)".
struct PackTexts {
  std::vector<std::vector<std::string>> forward;
  std::vector<std::vector<std::string>> backward;
};

/// Chrome trace JSON, for Perfetto and chrome://tracing. It has one process per timeline, in the
/// given order, and one thread per rank, named by replica, stage and tensor-parallel rank. Flows
/// follow each pack of a pass from stage to stage. Counters show memory; ts and dur are
/// microseconds. Spans have replica, stage and pack, and the pack's texts of `replicas` unless that
/// is empty. "otherData" has each timeline's metrics.
[[nodiscard]] std::string to_chrome_trace(const std::vector<Timeline>& timelines,
                                          const std::vector<PackTexts>& replicas = {});

/// One line per rank, "rank 0 |FFB.BO|", with `width` cells over the makespan. A cell that was busy
/// for at least half its time shows the kind that took most of it: F, B, I, W, O(ptimizer) or
/// R(educe). Other cells show '.'. REQUIRES: width > 0.
[[nodiscard]] std::string to_text(const Timeline& timeline, int width);

/// The ranks of a replica's pipeline, at least 1, and which of them `rank` is. A rank with one
/// stage has the stage of that number.
[[nodiscard]] std::int32_t pipeline_ranks(const Timeline& timeline);
[[nodiscard]] std::int32_t pipeline_rank(const Timeline& timeline, std::int32_t rank);

/// Compact JSON with a version, and back. A span's stage is left out where it has the rank's
/// number. from_json throws InvalidInput naming `origin` and field;
/// it also refuses overlapping spans of a rank.
[[nodiscard]] std::string timeline_to_json(const Timeline& timeline);
[[nodiscard]] Timeline timeline_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
