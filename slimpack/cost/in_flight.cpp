#include "slimpack/cost/in_flight.h"

#include <algorithm>

#include "slimpack/cost/memory_model.h"

namespace slimpack {
namespace {

Bytes largest(const std::vector<Bytes>& messages) {
  return messages.empty() ? Bytes(0) : *std::ranges::max_element(messages);
}

/// Of a direct exchange, the others' parts of the own shard. Else also copies of what is sent, and
/// parts of what the rank sums for others.
Bytes reductions(Bytes gradients, std::int32_t replicas) {
  if (replicas > kDirectMembers) return 2 * gradients;
  return gradients / replicas * (replicas - 1);
}

}  // namespace

void add_in_flight(TaskBytes& bytes, const Costs& cost, const StageLayout& layout,
                   std::int32_t replicas) {
  if (!cost.gpu || cost.autograd) return;
  const Bytes messages = largest(bytes.forward_input) + largest(bytes.backward_input);
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const int beside = static_cast<int>(s > 0) + static_cast<int>(s + 1 < layout.stages());
    // With ZeRO-2 and 3 a bucket at a time, and ModelState has it.
    const Bytes reduced =
        cost.zero > 1
            ? Bytes(0)
            : reductions(model_state(cost, layout, StageId(s), replicas).gradients, replicas);
    const auto stage = static_cast<std::size_t>(s);
    for (auto* transients : {&bytes.forward_transient, &bytes.backward_transient,
                             &bytes.input_transient, &bytes.weight_transient}) {
      if (transients->empty()) continue;
      for (Bytes& transient : (*transients)[stage]) transient += messages * beside;
    }
    // Weight gradients that were put off come after their backward.
    for (auto* transients : {&bytes.backward_transient, &bytes.weight_transient})
      if (!transients->empty() && !(*transients)[stage].empty())
        (*transients)[stage].back() += reduced;
  }
}

}  // namespace slimpack
