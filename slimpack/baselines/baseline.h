// Baselines: the methods that users run today, rebuilt as makers of StepPlans so that one simulator
// rates them all. docs/baselines.md says how each was rebuilt and how it differs from its original.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/tuning.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// How the runtime of the rebuilt system orders a stage.
enum class Discipline : std::uint8_t {
  kOneFOneB,        ///< Megatron's 1F1B, interleaved where a rank has several stages; ZB-V in a V
  kSlicedOneFOneB,  ///< 1F1B over slices, a pack's backward slices in reverse
  kCyclic,          ///< DynaPipe's wait-free cyclic schedule, with the best order of the packs
};

struct BaselinePlan {
  StepPlan plan;
  Discipline discipline = Discipline::kOneFOneB;
  /// kSlicedOneFOneB: a stage has so many slices more in flight than the next stage.
  std::int32_t ahead_per_stage = 1;
  /// kOneFOneB, by replica: each MicroPack's column, its number among the microbatches of a plain
  /// 1F1B, ascending. All replicas of a merged pack have it in the same column. A replica without a
  /// pack in a column does nothing there. Empty = a MicroPack's column is its index.
  std::vector<std::vector<std::int32_t>> columns = {};
  /// Weight gradients run apart from input gradients: stage s's s packs later, or as ZB-V has them.
  bool split = false;
};

/// The input of a baseline. Keeps a reference to the lengths.
struct BaselineInput {
  StageTable table;
  Tokens context;  ///< Job::context
  const SequenceLengths& lengths;
  Tuning tuning = {};
  /// Plans have one replica of those that share all packs, enough to see what each of them takes.
  bool first_of_group = false;

  [[nodiscard]] const StageLayout& layout() const { return table.layout(); }
  [[nodiscard]] std::int32_t replicas() const { return table.replication().replicas; }
};

/// Packs of whole sequences.
using SequencePacks = std::vector<std::vector<SequenceId>>;

/// The freedom that a baseline's system has.
struct BaselineTraits {
  bool cuts = false;             ///< cuts sequences at any token
  bool merges = false;           ///< makes merged MicroPacks
  bool remaps = false;           ///< some of these move rows (MicroPack::row_zones)
  bool mixes = true;             ///< layers of a stage may differ in their recomputation
  bool interleaves = false;      ///< runs several stages on a rank, in loops
  bool turns_back = false;       ///< runs ZB-V where stages turn back
  bool exchanges = false;        ///< ranks of a pipeline exchange attention
  bool packs_for_group = false;  ///< `packs` depend on Tuning::group

  /// Whether its orders know this placement of stages.
  [[nodiscard]] bool runs(const StagePlacement& placement) const {
    if (placement.turns_back()) return turns_back;
    return interleaves || placement.stages_per_rank() == 1;
  }
};

/// A baseline packs whole sequences, deals the packs to shares, and makes its plan of them. A share
/// is a replica, or `group` replicas that share their packs. Those that work
/// in rounds do all in one.
struct Baseline {
  std::string_view name;   ///< on the command line and in tables
  std::string_view about;  ///< one line: what it does and who runs it
  SequencePacks (*packs)(const BaselineInput& input) = nullptr;  ///< to be dealt
  /// Packs that are made share by share.
  std::vector<SequencePacks> (*shares)(const BaselineInput& input) = nullptr;
  /// `shares`: the packs of each share, in order; empty without `packs` and `shares`. If given some
  /// shares alone, it plans their replicas.
  BaselinePlan (*plan)(const BaselineInput& input, const std::vector<SequencePacks>& shares);
  /// The tunings that a user of the baseline would try, the published setting first. Tunings with
  /// the same packs are neighbours.
  std::vector<Tuning> (*tunings)(const BaselineInput& input);
  Dealing dealing = Dealing::kInTurn;       ///< the published one
  PackOrder order = PackOrder::kPublished;  ///< the published one; kPublished: as made
  BaselineTraits traits = {};
  /// The replicas of a share; null: one.
  std::int32_t (*group)(const BaselineInput& input) = nullptr;
};

/// In the order in which tables list them.
[[nodiscard]] std::span<const Baseline> baselines();

/// Throws InvalidInput for an unknown name, naming the nearest.
[[nodiscard]] const Baseline& baseline_named(std::string_view name);

/// The baseline that most users run: whole documents in packs. "packed" means this one everywhere.
[[nodiscard]] const Baseline& packed_baseline();

/// Throws InvalidInput if a sequence exceeds the context, or if a length, the context or the number
/// of replicas is below 1.
void require_packable(Tokens context, std::int32_t replicas, const SequenceLengths& lengths);

/// A baseline's packs before they are dealt or ordered.
struct MadePacks {
  SequencePacks all;
  std::vector<SequencePacks> shares;  ///< the same, if they are made share by share
};
[[nodiscard]] MadePacks made_packs(const Baseline& baseline, const BaselineInput& input);

/// The packs of each share, as the tuning deals and orders them. Empty if there are no packs.
[[nodiscard]] std::vector<SequencePacks> dealt_packs(const Baseline& baseline,
                                                     const BaselineInput& input,
                                                     const MadePacks& made);

/// The baseline's plan of `lengths`, which may be empty. check_plan accepts it. With fewer packs
/// than replicas some replicas have none. Deterministic. Throws InvalidInput as require_packable,
/// and where a pack of the tuning is too small for a sequence. REQUIRES: a baseline that runs the
/// layout's stages.
[[nodiscard]] BaselinePlan baseline_plan(const Baseline& baseline, const BaselineInput& input);

}  // namespace slimpack
