// Bytes of a vocabulary that is spread over the pipeline.
#pragma once

#include <cstdint>

#include "slimpack/cost/layer_widths.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// Adds the peaks of E, H and G on each of `ranks` pipeline ranks: hidden states of all rows beside
/// what the pass does with them. `held`: the packs with the slices as the replica holds them.
void add_vocabulary(TaskBytes& bytes, LayerWidths widths, const PackPlan& held, std::int32_t ranks,
                    DeviceKind device);

/// The bytes where E, H and G are counted as free, if the layout spreads the vocabulary.
[[nodiscard]] TaskBytes with_free_vocabulary(TaskBytes bytes, const StageLayout& layout,
                                             const PackPlan& packs);

}  // namespace slimpack
