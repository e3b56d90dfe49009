// Zeppelin, its parts and its rivals: how each shares a batch between ranks, as one MicroPack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/zones/zones.h"

namespace slimpack::bench {

enum class Sharing : std::uint8_t {
  kAllRanks,
  kRings,     ///< neighbouring ranks, a power of two of them, the best one
  kHybrid,    ///< as many neighbours as a sequence needs (ByteScale, arXiv:2502.21231)
  kLongOnly,  ///< all ranks share what one cannot hold
  kZeppelin,
};

struct Method {
  std::string name;
  ContextParallel context;
  Sharing sharing = Sharing::kAllRanks;
  bool remap = false;
  bool rival = false;  ///< of other systems
};

/// First one ring of all ranks, to which the others are compared:
///   1 ring    TransformerEngine's context parallelism over all ranks
///   rings     the same in rings of the best size
///   gather    keys and values of all sequences gathered on all ranks (Llama 3, arXiv:2407.21783)
///   hybrid    hybrid data parallelism
///   long      a ring of all ranks for long sequences alone
///   +route    one ring with routing
///   +zones    Zeppelin's zones, without routing and remapping
///   +both     with routing
///   zeppelin  with remapping, too
///   direct    the same, rows straight to each member
[[nodiscard]] std::vector<Method> zeppelin_methods();

/// The zones that a method may give the sequences: of kRings several, else one. `cost`: with links
/// and merging of all ranks. Throws InvalidInput as zeppelin_zones.
[[nodiscard]] std::vector<Zones> zones_of(const Method& method, const SequenceLengths& lengths,
                                          const ZoneProblem& problem, const Costs& cost);

/// All ranks run all sequences as one MicroPack; with its prediction.
[[nodiscard]] RatedPlan one_pack_step(const Method& method, const Zones& zones,
                                      const SequenceLengths& lengths, const ZoneProblem& problem,
                                      const Costs& cost);

/// Zeppelin's crossovers in a ring of a node and of two.
[[nodiscard]] ZoneCrossovers crossovers_of(const ZoneProblem& problem, const Costs& cost);

}  // namespace slimpack::bench
