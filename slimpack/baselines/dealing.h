// Deals packs to shares, and puts the packs of each share in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/baselines/baseline.h"

namespace slimpack {

/// By pack: forward and backward on all stages, in nanoseconds, with what a pack costs by itself.
[[nodiscard]] std::vector<std::int64_t> pack_costs(const BaselineInput& input,
                                                   const SequencePacks& packs);

/// Items with these costs in an order. Ties: the lower index is heavier. kPublished: as given.
[[nodiscard]] std::vector<std::size_t> ordered_items(std::span<const std::int64_t> costs,
                                                     PackOrder order);

/// The packs in an order by their costs. Ties: the lower index is heavier. kPublished: as given.
[[nodiscard]] SequencePacks ordered(const BaselineInput& input, const SequencePacks& packs,
                                    PackOrder order);

/// The packs of each share, in the given order. REQUIRES: shares ≥ 1; a dealing that is not
/// kPublished; a cost for each pack.
[[nodiscard]] std::vector<SequencePacks> deal(const SequencePacks& packs,
                                              std::span<const std::int64_t> costs,
                                              std::int32_t shares, Dealing dealing);

}  // namespace slimpack
