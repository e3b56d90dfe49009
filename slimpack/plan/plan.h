// Plan: which slices run together, forward and backward, on one replica of the pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/slice.h"
#include "slimpack/plan/stage_placement.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// The work that a stage or a rank does with a MicroPack. A stage runs F, B, I and W. Backward runs
/// whole (B) or split (zero bubble pipelines, arXiv:2401.10241): first its input gradients (I), for
/// which the previous stage waits, and later its weight gradients (W), for which nobody waits.
/// Where the vocabulary is spread over the pipeline (StageLayout), all ranks of a pipeline run E, H
/// and G together.
enum class Pass : std::uint8_t {
  kForward,
  kBackward,
  kInputGradient,
  kWeightGradient,
  kEmbedding,          ///< E: looks a forward pack's tokens up, before F on the first stage
  kHead,               ///< H: head and loss of a backward pack, both passes, before B on the last
  kEmbeddingGradient,  ///< G: the embedding's gradient of a backward pack, after B on the first
};

/// The passes with MicroPacks of their own. I and W run the backward packs.
inline constexpr std::array kWholePasses = {Pass::kForward, Pass::kBackward};

/// Whether the pass is one of the vocabulary's, which all ranks of a pipeline run together.
[[nodiscard]] constexpr bool is_joint(Pass pass) {
  return pass >= Pass::kEmbedding;
}

/// E, H and G, and the place of one of them among these.
inline constexpr std::array kJointPasses = {Pass::kEmbedding, Pass::kHead,
                                            Pass::kEmbeddingGradient};
[[nodiscard]] constexpr std::size_t joint_index(Pass pass) {
  return static_cast<std::size_t>(pass) - static_cast<std::size_t>(Pass::kEmbedding);
}

/// Whether the pass runs the forward packs.
[[nodiscard]] constexpr bool runs_forward_packs(Pass pass) {
  return pass == Pass::kForward || pass == Pass::kEmbedding;
}

/// Whether the pass runs from the last stage to the first: B and I.
[[nodiscard]] constexpr bool goes_back(Pass pass) {
  return pass == Pass::kBackward || pass == Pass::kInputGradient;
}

/// Whether the pass takes rows from one stage and gives rows to the next one: F, B and I.
[[nodiscard]] constexpr bool passes_rows(Pass pass) {
  return pass == Pass::kForward || goes_back(pass);
}

/// Slices that run as one scheduling unit of one pass. The rows of its tensors are in the order of
/// its slices.
struct MicroPack {
  std::vector<Slice> slices;
  /// The number of replicas that run it together by context parallelism (DP-Merge): g. A pack of
  /// replica r is run by replicas [r − r mod g, r − r mod g + g), and the plans of all of them
  /// contain it.
  std::int32_t replicas = 1;
  /// By slice, the members of this group, from 0 on, that share its rows; those of one zone stand
  /// side by side. Empty = every slice is shared by the whole group.
  std::vector<Zone> zones = {};
  /// By slice, the members that hold its rows outside of attention, which has them moved there and
  /// back (remapping, Zeppelin, arXiv:2509.21841). Empty = those of its zone.
  std::vector<Zone> row_zones = {};

  [[nodiscard]] Zone zone(std::size_t slice) const {
    return zones.empty() ? Zone{0, replicas} : zones[slice];
  }
  [[nodiscard]] Zone row_zone(std::size_t slice) const {
    return row_zones.empty() ? zone(slice) : row_zones[slice];
  }

  /// The tokens of all slices, on all replicas together.
  [[nodiscard]] Tokens tokens() const;
  /// The most rows that one replica holds outside of attention: over the slices that it shares, the
  /// sum of tokens ÷ size of the row zone, rounded up.
  [[nodiscard]] Tokens rows() const;
  bool operator==(const MicroPack&) const = default;
};

/// The MicroPacks of one replica. Every stage runs the packs of a pass in this order. PackId
/// indexes `forward` or `backward`; the two partitions are independent.
struct PackPlan {
  std::vector<MicroPack> forward;
  std::vector<MicroPack> backward;

  /// The packs that `pass` runs.
  [[nodiscard]] const std::vector<MicroPack>& of(Pass pass) const {
    return runs_forward_packs(pass) ? forward : backward;
  }
  [[nodiscard]] std::vector<MicroPack>& of(Pass pass) {
    return runs_forward_packs(pass) ? forward : backward;
  }
  bool operator==(const PackPlan&) const = default;
};

/// Consecutive layers [layer_begin[s], layer_begin[s+1]) on stage s. The embedding sits on the
/// first stage, the final norm and the head on the last.
struct StageLayout {
  std::vector<std::int32_t> layer_begin;  ///< stages + 1 entries, from 0 to the layer count
  StagePlacement placement = {};
  /// Every rank of the pipeline has an equal part of the vocabulary, of embedding and head, instead
  /// of the first and the last stage all of it (SlimPipe, arXiv:2504.14519).
  bool spread_vocabulary = false;

  [[nodiscard]] std::int32_t stages() const {
    return static_cast<std::int32_t>(layer_begin.size()) - 1;
  }
  /// The number of ranks of a pipeline.
  [[nodiscard]] std::int32_t ranks() const { return stages() / placement.stages_per_rank(); }
  [[nodiscard]] std::int32_t layers(StageId s) const {
    return layer_begin[s.index() + 1] - layer_begin[s.index()];
  }
  bool operator==(const StageLayout&) const = default;
};

/// One replica's share of a step.
struct ReplicaPlan {
  std::vector<SequenceId> sequences;  ///< ascending; merged ones are listed on every replica
  PackPlan packs;

  bool operator==(const ReplicaPlan&) const = default;
};

/// A whole step: plain data with a JSON form. check_plan checks it wherever it is read or made.
struct StepPlan {
  SequenceLengths lengths;  ///< by SequenceId, of the whole step
  StageLayout layout;
  std::vector<ReplicaPlan> replicas;
  RecomputeByLayer recompute = {};  ///< by layer of the model, the same on all replicas

  bool operator==(const StepPlan&) const = default;
};

/// The most replicas that run a MicroPack of these together; 1 = none is merged.
[[nodiscard]] std::int32_t most_merged(const PackPlan& packs);
/// The most of all replicas. The lower bound of the plan's step has to allow as many.
[[nodiscard]] std::int32_t most_merged(const StepPlan& plan);

/// The recomputation of the stage's layers, by layer of the stage.
[[nodiscard]] RecomputeByLayer recompute_of_stage(const StepPlan& plan, StageId stage);

/// Every broken rule of plans, one line each; empty for a correct plan. It shares no code with the
/// makers of plans. The rules:
///  - each sequence on exactly one replica, or merged on the replicas of one group; each token in
///    exactly one forward and one backward MicroPack there; no empty MicroPack or slice; slices
///    inside their sequence;
///  - at most one slice of a sequence in a MicroPack;
///  - per sequence, forward slices ascend and backward slices strictly descend over the packs;
///  - the number of a group's replicas divides that of every larger one, and its first replica is a
///    multiple of it;
///  - the replicas of a group have the same merged MicroPacks in the same order, including those of
///    larger groups around it, so that no two replicas wait for each other in a circle;
///  - a merged MicroPack has a zone inside its group for each slice, or none; a sequence has the
///    same zone in all of its MicroPacks; slices of one zone stand side by side; the same holds for
///    row zones, whose slices may stand anywhere;
///  - layer_begin ascends strictly from 0; the placement is of as many stages; a single rank has
///    one stage, and no vocabulary to spread; a recomputation for each layer, or none.
/// Cost: O(slices log slices). At most `max_errors` lines.
[[nodiscard]] std::vector<std::string> check_plan(const StepPlan& plan, std::size_t max_errors = 8);

/// Throws InvalidInput with the first broken rule, naming `origin`.
void require_valid_plan(const StepPlan& plan, std::string_view origin);

/// For each backward MicroPack, the number of forward MicroPacks that must have finished on the
/// last stage before it may start there: 1 + the highest forward index holding any slice of any of
/// its sequences. REQUIRES: valid packs.
[[nodiscard]] std::vector<std::int32_t> forwards_needed(const PackPlan& packs);

/// JSON text with "format": "slimpack-plan" and "version": 3, or 4 if a MicroPack has zones of
/// either kind. from_json checks every field's presence, type and range, but does not call
/// check_plan. It throws InvalidInput naming `origin`. plan_json.h has the layout's fields.
/// Without "zones" a merged MicroPack has none.
[[nodiscard]] std::string plan_to_json(const StepPlan& plan);
[[nodiscard]] StepPlan plan_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
