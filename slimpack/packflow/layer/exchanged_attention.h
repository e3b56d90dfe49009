// Exchanged attention: a rank of the pipeline runs a part of another one's attention in one layer
// (plan/context_exchange.h).
//
// The giver sends before its own attention, and the taker runs its own attention first, so that
// the tensors travel meanwhile. Keys are apart from the giver's own ones, so forward merges two
// results by their log-sum-exp, and backward adds gradients.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/ranks/collective.h"

namespace slimpack {

/// What a rank knows of an exchange of an action. Does not own the group.
struct AttentionExchange {
  Collective& pipeline;
  std::int32_t peer = 0;  ///< the member of the pipeline on the other side
  bool gives = false;
  std::size_t slice = 0;     ///< of the giver's MicroPack
  std::int64_t queries = 0;  ///< of that slice
  std::int64_t keys = 0;     ///< the oldest of its sequence
  std::size_t layers = 0;    ///< of each of the two stages, from its first
};

/// Of the giver, before its own attention: sends the slice's queries and its first keys and values.
void give_forward(const AttentionExchange& exchange, const at::Tensor& q_TND, const KeysValues& kv);
/// After its own attention: merges what the taker found into the slice's result.
[[nodiscard]] AttentionResult merged_with_taken(const AttentionExchange& exchange,
                                                AttentionResult own);

/// Of the taker, before its own attention. `like`: queries or outputs of its own.
void expect_forward(const AttentionExchange& exchange, const at::Tensor& like_TND,
                    const KeysValues& like_kv);
/// After its own attention.
void take_forward(const AttentionExchange& exchange);

/// The same for backward: the giver gets gradients of queries, keys and values.
void give_backward(const AttentionExchange& exchange, const QueryRows& rows, const KeysValues& kv);
[[nodiscard]] AttentionGradients taken_gradients(const AttentionExchange& exchange);
void expect_backward(const AttentionExchange& exchange, const at::Tensor& like_TND,
                     const KeysValues& like_kv);
void take_backward(const AttentionExchange& exchange);

}  // namespace slimpack
