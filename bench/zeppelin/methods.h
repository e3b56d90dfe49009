// Zeppelin, its parts and its rivals: how long each takes for a step.
#pragma once

#include <functional>
#include <vector>

#include "bench/zeppelin/cases.h"

namespace slimpack::bench {

struct Method {
  const char* name;
  std::function<double(const Batch& batch)> step_time;  ///< nanoseconds
  bool rival = false;                                   ///< of other systems
};

/// First one ring of all ranks, to which the others are compared:
///   1 ring    TransformerEngine's context parallelism over all ranks
///   rings     the same in rings of the best size
///   a2a       heads exchanged inside nodes, a ring between them (TransformerEngine's a2a+p2p)
///   gather    keys and values of all sequences gathered on all ranks (Llama 3)
///   hybrid    hybrid data parallelism (ByteScale)
///   long      a ring of all ranks for long sequences alone
///   +route    one ring with routing
///   +zones    Zeppelin's zones and queues, without routing and remapping
///   +both     with routing
///   zeppelin  with remapping, too
///   searched  the best of many zones
/// How many tokens a rank may hold in attention's layout is a choice: each method that depends on
/// it takes the best number up to the batch's.
[[nodiscard]] const std::vector<Method>& zeppelin_methods();

}  // namespace slimpack::bench
