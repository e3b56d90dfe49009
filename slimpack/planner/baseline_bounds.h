// Baseline bounds: no baseline of a kind, no dealing of its packs and no order of a share can be
// faster. The bounds look at sequences only, so that most baselines need not be made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/stage_table.h"

namespace slimpack {

struct ShareBound {
  Nanos makespan;
  std::size_t heaviest = 0;  ///< the share that says so
};

/// Keeps a reference to the lengths. `table`: of the cheapest recomputation. Makespans, with
/// reduction and optimizer, whatever memory the ranks have.
class BaselineBounds {
 public:
  /// `most_merged`: the most replicas that a baseline may let share a pack.
  BaselineBounds(const StageTable& table, const SequenceLengths& lengths, std::int32_t most_merged);

  /// No step of a baseline with these traits is shorter. Cost: none, once it is known.
  [[nodiscard]] Nanos of_kind(const BaselineTraits& traits) const;

  /// No step with one of these packs is shorter, however they are dealt, ordered and sliced: a pack
  /// runs through all stages and back; the slices of a cut pack follow each other on the first
  /// stage forward and on the last one back. `group` replicas share each pack. Cost: O(sequences).
  [[nodiscard]] Nanos of_packs(const BaselineTraits& traits, const SequencePacks& packs,
                               std::int32_t group);

  /// No step with these shares is shorter, whatever their orders: the first and the last stage run
  /// each pack of a share both ways. `tuning`: that of the shares, whose slices are the MicroPacks
  /// of a pack, less where it has fewer tokens or tails are packed. Cost: O(sequences).
  [[nodiscard]] ShareBound of_shares(const BaselineTraits& traits,
                                     const std::vector<SequencePacks>& shares, std::int32_t group,
                                     const Tuning& tuning);

 private:
  /// Nanoseconds at the speed of the fastest replica.
  struct Work {
    double first = 0;    ///< both passes on the first stage
    double last = 0;     ///< both passes on the last stage
    double in = 0;       ///< forward through the stages before the last
    double out = 0;      ///< back through them
    double chained = 0;  ///< forward on the first stage, input gradients on the last

    Work& operator+=(const Work& other);
  };
  /// The work of each sequence, and the work of a MicroPack by itself.
  struct GroupWorks {
    std::vector<Work> sequences;
    Work pack;
  };

  /// The work of packs that so many replicas share, by a baseline with these traits.
  const GroupWorks& works(const BaselineTraits& traits, std::int32_t group);
  [[nodiscard]] GroupWorks worked_out(const StageTable& table, std::int32_t group) const;
  [[nodiscard]] Work pack_work(const GroupWorks& works, const std::vector<SequenceId>& pack) const;
  [[nodiscard]] double slices_more(const std::vector<SequenceId>& pack, std::int32_t slices) const;
  [[nodiscard]] Nanos bound(double nanoseconds, std::size_t actions) const;

  StageTable table_;
  /// Shared packs that move rows may have sequences that nothing is sent for.
  StageTable free_sharing_;
  const SequenceLengths& lengths_;
  std::vector<double> fastest_;                                ///< by stage
  Nanos whole_, cut_, merged_, remapped_;                      ///< of kinds
  Nanos rest_;                                                 ///< reduction and optimizer
  std::map<std::pair<bool, std::int32_t>, GroupWorks> works_;  ///< by whether rows move, and group
};

}  // namespace slimpack
