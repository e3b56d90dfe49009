// Exchange barriers: two actions that exchange attention start together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>

#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// The exchange barriers of one replica.
class ExchangeBarriers {
 public:
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

  explicit ExchangeBarriers(std::span<const ContextExchange> exchanges) : partners_(exchanges) {}

  /// The action's partner; null: it has none.
  [[nodiscard]] const Action* partner(const Action& action) const { return partners_.of(action); }
  /// The action is ready at `ready`. When both start; kUnknown until its partner is ready, too.
  std::int64_t join(const Action& action, std::int64_t ready) {
    ready_.insert_or_assign(action, ready);
    const auto other = ready_.find(*partner(action));
    return other == ready_.end() ? kUnknown : std::max(ready, other->second);
  }

 private:
  ExchangePartners partners_;
  std::map<Action, std::int64_t> ready_;
};

}  // namespace slimpack
