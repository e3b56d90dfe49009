// Search: the best of many zones for a batch, by the time of a layer.
#pragma once

#include "slimpack/zones/layer_time.h"
#include "slimpack/zones/partition.h"

namespace slimpack {

/// A layer in both passes.
struct LayerPasses {
  ZonedLayer forward;
  ZonedLayer backward;
};

/// Nanoseconds of forward and backward.
[[nodiscard]] double passes_time(const SequenceLengths& lengths, const Zones& zones,
                                 const ZoneProblem& problem, const LayerPasses& layer,
                                 const ZoneOptions& options);

/// The zones whose passes take least, of these: Zeppelin's from its crossovers and from shorter and
/// longer bounds; rings of every size that divides the ranks; hybrid data parallelism for ranks
/// that take less of a sequence than they may. Throws InvalidInput as zeppelin_zones. Cost: that of
/// some hundred layer_time.
[[nodiscard]] Zones best_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                               const LayerPasses& layer, const ZoneOptions& options);

}  // namespace slimpack
