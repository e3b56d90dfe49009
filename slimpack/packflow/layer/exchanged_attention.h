// Exchanged attention: a rank of the pipeline runs a part of another one's attention in one layer
// (plan/context_exchange.h).
//
// The giver sends before its own attention, and the taker runs its own attention first, so that
// the tensors travel meanwhile. Keys are apart from the giver's own ones, so forward merges two
// results by their log-sum-exp, and backward adds gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/plan/context_exchange.h"

namespace slimpack {

/// One rank's view of an action's exchange of attention. Does not own the group.
struct AttentionExchange {
  Collective& pipeline;
  std::int32_t peer = 0;  ///< the member of the pipeline on the other side
  bool gives = false;
  std::size_t slice = 0;     ///< of the giver's MicroPack
  std::int64_t queries = 0;  ///< of that slice
  std::int64_t keys = 0;     ///< the oldest of its sequence
  std::size_t layers = 0;    ///< of each of the two stages, from its first
};

/// The giver calls this before its own attention. It sends the slice's queries and its first keys
/// and values.
void give_forward(const AttentionExchange& exchange, const at::Tensor& q_TND, const KeysValues& kv);
/// The giver calls this after its own attention. It merges the taker's result into the slice's.
[[nodiscard]] AttentionResult merged_with_taken(const AttentionExchange& exchange,
                                                AttentionResult own);

/// The taker calls this before its own attention. `like`: queries or outputs of its own.
void expect_forward(const AttentionExchange& exchange, const at::Tensor& like_TND,
                    const KeysValues& like_kv);
/// The taker calls this after its own attention: attends to what was given and sends the result.
void take_forward(const AttentionExchange& exchange);

/// Backward has the same calls. The giver gets gradients of queries, keys and values.
void give_backward(const AttentionExchange& exchange, const QueryRows& rows, const KeysValues& kv);
[[nodiscard]] AttentionGradients taken_gradients(const AttentionExchange& exchange);
void expect_backward(const AttentionExchange& exchange, const at::Tensor& like_TND,
                     const KeysValues& like_kv);
void take_backward(const AttentionExchange& exchange);

/// The actions of a rank that exchange attention with another rank.
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
