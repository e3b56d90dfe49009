// The costs of a context exchange: time and bytes of its two actions.
#pragma once

#include <span>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/context_exchange.h"

namespace slimpack {

/// Whether layers of these costs can exchange attention: PackFlow's own, each of which attends to
/// all keys.
[[nodiscard]] bool exchanges_attention(const Costs& cost);

/// Changes times and bytes of the two actions of each exchange. In each layer both start their own
/// attention at once. The taker then runs the giver's queries, once they have arrived; the giver
/// waits for the result if it comes after its own part. A split backward exchanges in its input
/// gradients. Not counted: stages of unlike layers come to a shared layer at different times.
/// REQUIRES: exchanges_attention(cost); exchanges as check_schedule accepts them.
void add_exchanges(ReplicaPacks& replica, const RecomputingCosts& cost, const StageLayout& layout,
                   std::span<const ContextExchange> exchanges, const Replication& replication = {});

}  // namespace slimpack
