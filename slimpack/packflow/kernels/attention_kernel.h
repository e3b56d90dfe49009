// Attention kernels: one block of queries against one block of keys, and the merging of blocks.
//
// The kernel of a block follows from where its tensors are, from their type and from their
// heads: libtorch's flash attention on CPUs; in bf16 on other devices the newest FlashAttention
// that takes them (4, 3, 2); plain matrix products elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/spec/dtype.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

/// Keys and values of some tokens of a sequence: [tokens, G, D].
struct KeysValues {
  at::Tensor k;
  at::Tensor v;

  [[nodiscard]] KeysValues narrow(std::int64_t begin, std::int64_t tokens) const {
    return {k.narrow(0, begin, tokens), v.narrow(0, begin, tokens)};
  }
};

struct AttentionResult {
  at::Tensor out_TND;
  at::Tensor lse_TN;  ///< accumulate type
};

/// The keys of a block that its queries see.
struct Mask {
  enum Kind : std::uint8_t {
    kNone,
    kCausal,     ///< query i sees keys 0 to i
    kCausalEnd,  ///< the last query sees all keys, the one before it all but the last, and so on
  };

  /// Implicit, for most masks are their kind alone.
  Mask(Kind k, std::int64_t most = 0) : kind(k), window(most) {}

  /// The key at the position of a query, the last one that it sees. REQUIRES: a causal mask.
  [[nodiscard]] std::int64_t last_key(std::int64_t query, std::int64_t queries,
                                      std::int64_t keys) const {
    return query + (kind == kCausalEnd ? keys - queries : 0);
  }
  /// The first key that a query with this last one sees.
  [[nodiscard]] std::int64_t first_key(std::int64_t last) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, last - window + 1);
  }

  bool operator==(const Mask&) const = default;

  Kind kind;
  /// A query sees the last so many of the keys that the kind shows it; 0 = all.
  std::int64_t window;
};

/// REQUIRES: at least one query and one key; q, k, v of one type; last dimensions contiguous; with
/// kCausal no more keys than queries, with kCausalEnd no fewer, and has_causal_end(q) or a window;
/// a window with kCausalEnd alone.
[[nodiscard]] AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask);

/// Whether the kernel of these queries knows Mask::kCausalEnd without a window: a slice and its
/// prefix then are one call.
[[nodiscard]] bool has_causal_end(const at::Tensor& q_TND);
/// Whether the kernel of these queries and keys passes over keys that a window hides from all
/// queries of a tile. Others compute their scores and mask them.
[[nodiscard]] bool skips_hidden_keys(const at::Tensor& q_TND, const KeysValues& kv);

/// Weighs two results of the same queries on different keys by their share of the softmax mass
/// (log-sum-exp), in the accumulate type; the first is reused. A query may see no key in one of
/// them: its log-sum-exp is −∞.
[[nodiscard]] AttentionResult merged(AttentionResult a, const AttentionResult& b);

/// Rows of queries that backward needs, merged over all keys that the queries see.
struct QueryRows {
  at::Tensor dout_TND;
  at::Tensor q_TND;
  at::Tensor out_TND;
  at::Tensor lse_TN;

  [[nodiscard]] QueryRows narrow(std::int64_t begin, std::int64_t rows) const {
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, rows); };
    return {part(dout_TND), part(q_TND), part(out_TND), part(lse_TN)};
  }
};

/// Gradients of one block.
struct AttentionGradients {
  at::Tensor dq_TND;
  at::Tensor dk_TGD;
  at::Tensor dv_TGD;

  /// Adds the gradients of keys and values to the first rows of a sum.
  void add_to(const KeysValues& sum) const {
    sum.k.narrow(0, 0, dk_TGD.size(0)).add_(dk_TGD);
    sum.v.narrow(0, 0, dv_TGD.size(0)).add_(dv_TGD);
  }
};
/// The block's share of the gradients: separable by keys (FlashAttention-2). REQUIRES: as attend.
[[nodiscard]] AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                 Mask mask);

/// Numbers of heads and their dimension.
struct AttentionHeads {
  std::int64_t queries = 0, keys = 0;
  std::int64_t dim = 0;
  bool windowed = false;  ///< whether queries see a window of keys alone
};
[[nodiscard]] AttentionHeads attention_heads(const LayerShape& layer);

/// The kernel that runs.
struct KernelChoice {
  std::int32_t flash_release = 0;  ///< of FlashAttention on GPUs; 0: another kernel
  std::string text;  ///< for people: its name, and why none that they installed is newer
};

/// The kernel for tensors with such heads. Throws InvalidInput if the library of FlashAttention-4
/// (FlashAttention4) is broken or of another version.
[[nodiscard]] KernelChoice attention_kernel(at::Device device, Dtype dtype,
                                            const AttentionHeads& heads);

/// Sequences whose queries lie end to end, and whose keys do: one call takes all of them. The
/// queries of each are the last of as many keys, or of more. The tensors lie where the queries do
/// when a kernel takes them.
struct JoinedSequences {
  at::Tensor query_ends_B1;  ///< where they begin, and the end of the last: int32
  at::Tensor key_ends_B1;    ///< the same tensor where all have as many keys as queries
  std::int64_t longest_queries = 0, longest_keys = 0;  ///< rows

  /// On a CPU.
  JoinedSequences(const std::vector<std::int64_t>& queries, const std::vector<std::int64_t>& keys);
  [[nodiscard]] std::array<at::Tensor*, 2> tensors() { return {&query_ends_B1, &key_ends_B1}; }
};

/// Whether there is such a call for queries of the type of `like`, where that is.
[[nodiscard]] bool takes_several_sequences(const at::Tensor& like, const AttentionHeads& heads);

/// Attention inside each of them, causal with the mask aligned at the end. `window`: Mask::window.
/// REQUIRES: takes_several_sequences(); the rows of all.
[[nodiscard]] AttentionResult attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                               const JoinedSequences& sequences,
                                               std::int64_t window = 0);
[[nodiscard]] AttentionGradients attend_sequences_backward(const QueryRows& rows,
                                                           const KeysValues& kv,
                                                           const JoinedSequences& sequences,
                                                           std::int64_t window = 0);

}  // namespace slimpack
