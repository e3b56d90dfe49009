// What the memory model counts.
#pragma once

#include <cstdint>

namespace slimpack {

/// What of a GPU's actions counts. Each counts all before it, too, so their differences say what
/// each adds to a peak.
enum class Counted : std::uint8_t {
  kTensors,   ///< the stores, and the tensors of layers
  kKernels,   ///< what the attention kernel takes for itself (flash_transients.h)
  kMessages,  ///< messages between stages (in_flight.h)
  kAll,       ///< gradients that replicas sum (in_flight.h)
};

}  // namespace slimpack
