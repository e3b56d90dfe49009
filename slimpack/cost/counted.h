// The parts of a GPU's memory that the memory model may count.
#pragma once

#include <cstdint>

namespace slimpack {

/// The bytes of a GPU's actions that count. Each value counts all values before it, too, so the
/// differences say what each value adds to a peak.
enum class Counted : std::uint8_t {
  kTensors,   ///< the stores, and the tensors of layers
  kKernels,   ///< what the attention kernel takes for itself (flash_transients.h)
  kMessages,  ///< messages between stages (StageTable::add_in_flight)
  kAll,       ///< gradients that replicas sum (StageTable::add_in_flight)
};

}  // namespace slimpack
