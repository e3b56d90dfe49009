// Rank exchanges: the actions of a rank that exchange attention with another rank.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "slimpack/packflow/layer/exchanged_attention.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/plan/context_exchange.h"

namespace slimpack {

class RankExchanges {
 public:
  /// Keeps the exchanges that have an action of pipeline rank `rank`. `exchanges`: those of the
  /// replica. The communicator must outlive the object.
  RankExchanges(std::span<const ContextExchange> exchanges, const PackPlan& packs,
                const StageLayout& layout, std::int32_t rank, Communicator& communicator);

  /// The action's exchange; null if it has none.
  [[nodiscard]] const AttentionExchange* of(const Action& action) const {
    const auto it = exchanges_.find(action);
    return it == exchanges_.end() ? nullptr : &it->second;
  }

 private:
  std::map<Action, AttentionExchange> exchanges_;
};

}  // namespace slimpack
