// Context exchange: one rank of a pipeline runs a part of another one's attention (SlimPipe,
// arXiv:2504.14519, section 4.2). Ranks of a pipeline hold slices with prefixes of different length
// at any time, so without it the rank with the longest prefix keeps the others waiting.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The pack of I and W is a backward pack. All ranks run E, H and G together; their stage is the
/// rank's first.
struct Action {
  StageId stage;
  Pass pass = Pass::kForward;
  PackId pack;

  auto operator<=>(const Action&) const = default;
};

/// In each of the first layers that both stages have, the giver sends the queries of one slice and
/// its sequence's oldest keys and values; the taker sends back their attention output and
/// log-sum-exp over these keys, which the giver merges into its own; backward it sends back the
/// gradients of the rows that it was sent. Both actions start together.
struct ContextExchange {
  Action giver;
  Action taker;    ///< of the same pass on another rank
  Tokens keys{0};  ///< the oldest; at most the prefix of the giver's slice

  auto operator<=>(const ContextExchange&) const = default;
};

/// Who exchanges attention with whom in one replica.
class ExchangePartners {
 public:
  explicit ExchangePartners(std::span<const ContextExchange> exchanges) {
    for (const ContextExchange& exchange : exchanges) {
      partners_.emplace(exchange.giver, exchange.taker);
      partners_.emplace(exchange.taker, exchange.giver);
    }
  }
  /// The action on the other side; null: the action is in no exchange.
  [[nodiscard]] const Action* of(const Action& action) const {
    const auto it = partners_.find(action);
    return it == partners_.end() ? nullptr : &it->second;
  }

 private:
  std::map<Action, Action> partners_;  ///< both ways
};

/// Query–key pairs of causal attention, of all slices of a MicroPack.
[[nodiscard]] inline double causal_pairs(const MicroPack& pack) {
  double pairs = 0;
  for (const Slice& slice : pack.slices) pairs += slice.causal_pairs();
  return pairs;
}

/// The place in the pack of the slice whose queries the giver sends: the first of those with the
/// longest prefix.
[[nodiscard]] inline std::size_t exchanged_slice(const MicroPack& pack) {
  const auto& slices = pack.slices;
  return static_cast<std::size_t>(std::ranges::max_element(slices, {}, &Slice::prefix) -
                                  slices.begin());
}

/// The layers of both stages in which the exchange takes place: so many from each one's first.
[[nodiscard]] inline std::int32_t exchanging_layers(const StageLayout& layout,
                                                    const ContextExchange& exchange) {
  return std::min(layout.layers(exchange.giver.stage), layout.layers(exchange.taker.stage));
}

}  // namespace slimpack
