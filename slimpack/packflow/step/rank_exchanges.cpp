#include "slimpack/packflow/step/rank_exchanges.h"

namespace slimpack {

RankExchanges::RankExchanges(std::span<const ContextExchange> exchanges, const PackPlan& packs,
                             const StageLayout& layout, std::int32_t rank,
                             Communicator& communicator) {
  for (const ContextExchange& exchange : exchanges) {
    const bool gives = layout.placement.rank_of(exchange.giver.stage) == rank;
    const Action& own = gives ? exchange.giver : exchange.taker;
    const Action& other = gives ? exchange.taker : exchange.giver;
    if (layout.placement.rank_of(own.stage) != rank) continue;
    const MicroPack& pack = packs.of(own.pass)[exchange.giver.pack.index()];
    const std::size_t slice = exchanged_slice(pack);
    exchanges_.emplace(
        own,
        AttentionExchange{communicator.pipeline(), layout.placement.rank_of(other.stage), gives,
                          slice, pack.slices[slice].length().count(), exchange.keys.count(),
                          static_cast<std::size_t>(exchanging_layers(layout, exchange))});
  }
}

}  // namespace slimpack
