#include "slimpack/cost/flash_transients.h"

#include <algorithm>
#include <span>
#include <vector>

#include "slimpack/cost/attention_transients.h"
#include "slimpack/cost/joined_slices.h"

namespace slimpack {
namespace {

constexpr std::int64_t kQueryBlock = 128;
constexpr std::int64_t kKeyTile = 128;  // of releases 3 and 4

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Rows of sequences that lie end to end, padded as the kernels of Hopper pad them.
std::int64_t padded_rows(std::int64_t rows, std::int64_t sequences, std::int64_t tile) {
  return (rows + (sequences + 1) * tile - 1) / tile * tile;
}

/// The memory of releases 3 and 4 besides the log-sum-exp with heads first. Locks count as if
/// every sequence had all rows: too many, and few beside the sums.
std::int64_t hopper_backward_call(const LayerWidths& w, std::int64_t sequences,
                                  std::int64_t queries, std::int64_t keys) {
  const std::int64_t heads = w.shape.num_heads, key_heads = w.shape.num_kv_heads;
  const std::int64_t tile = w.shape.head_dim <= 64 ? 128 : 64;
  const std::int64_t head_dim = rounded_up(w.shape.head_dim, w.shape.head_dim <= 128 ? 32 : 64);
  constexpr std::int64_t kLock = 2 * sizeof(std::int32_t);
  const std::int64_t rows = padded_rows(queries, sequences, tile);
  const std::int64_t of_queries =
      heads * (rows * (head_dim + 2) * w.accumulator + sequences * share_of(queries, tile) * kLock);
  if (heads == key_heads) return of_queries;
  return of_queries + 2 * key_heads *
                          (padded_rows(keys, sequences, kKeyTile) * head_dim * w.accumulator +
                           sequences * share_of(keys, kKeyTile) * kLock);
}

/// Slices of one call.
struct Call {
  std::int64_t sequences = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::vector<Slice> slices;

  void add(const Slice& s) {
    ++sequences;
    queries += s.length().count();
    keys += s.end.count();
    slices.push_back(s);
  }
  /// Bytes of K and V laid end to end, which a call of several sequences needs; 0 for one sequence.
  [[nodiscard]] std::int64_t joined_keys(const LayerWidths& w) const {
    return sequences > 1 ? 2 * w.k * keys : 0;
  }
};

std::vector<Call> calls_of(const LayerWidths& w, const MicroPack& pack) {
  std::vector<Call> calls;
  for (std::span<const Slice> left = pack.slices; !left.empty();) {
    const std::size_t joined = joined_slices(left, 2 * w.k);
    Call& call = calls.emplace_back();
    for (const Slice& s : left.first(joined)) call.add(s);
    // Keys that a window hides from all queries of a lone slice take part in no call.
    if (const Tokens window(w.shape.window); joined == 1 && window > Tokens(0))
      call.keys = (left.front().window_prefix(window) + left.front().length()).count();
    left = left.subspan(joined);
  }
  return calls;
}

}  // namespace

bool flash_takes(std::int64_t head_dim) {
  return head_dim % 8 == 0 && head_dim <= 256;
}

std::int64_t flash_forward_call(const LayerWidths& w, std::int64_t queries) {
  return w.kernel_bytes ? queries * w.lse : 0;
}

std::int64_t flash_backward_call(const LayerWidths& w, std::int64_t sequences, std::int64_t queries,
                                 std::int64_t keys) {
  if (!w.kernel_bytes) return 0;
  if (w.flash_release > 2)
    return queries * w.lse + hopper_backward_call(w, sequences, queries, keys);
  const std::int64_t heads = w.shape.num_heads;
  const std::int64_t padded =
      sequences > 1 ? queries + kQueryBlock * sequences : rounded_up(queries, kQueryBlock);
  const std::int64_t copies = share_of(w.multiprocessors, sequences * heads);
  const std::int64_t head_dim = rounded_up(w.shape.head_dim, w.shape.head_dim <= 128 ? 32 : 64);
  const std::int64_t dq = copies * padded * heads * head_dim * w.accumulator;
  const std::int64_t expanded = heads == w.shape.num_kv_heads ? 0 : 2 * keys * w.q;
  return (queries + padded) * w.lse + dq + expanded;
}

std::int64_t flash_forward_transient(const LayerWidths& w, const MicroPack& pack) {
  const std::int64_t result = w.q + w.lse;
  const std::int64_t tokens = pack.tokens().count();
  const std::vector<Call> calls = calls_of(w, pack);
  std::int64_t to_come = tokens;
  std::int64_t most = calls.size() > 1 ? tokens * result : 0;  // results that are joined
  for (const Call& call : calls) {
    to_come -= call.queries;
    most = std::max(most,
                    call.joined_keys(w) + flash_forward_call(w, call.queries) - to_come * result);
  }
  return most;
}

std::int64_t flash_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                      const SequenceLengths& lengths) {
  LayerStores stores;
  std::int64_t most = 0;
  for (const Call& call : calls_of(w, pack)) {
    for (const Slice& s : call.slices) stores.open(w, s, lengths[s.sequence.index()]);
    const std::int64_t gradients = call.queries * w.q + call.keys * 2 * w.k;
    most = std::max(most, stores.opened - stores.closed + call.joined_keys(w) + gradients +
                              flash_backward_call(w, call.sequences, call.queries, call.keys));
    for (const Slice& s : call.slices) stores.close(w, s, lengths[s.sequence.index()]);
  }
  return pack.tokens().count() * (w.q + 2 * w.k) + most;
}

}  // namespace slimpack
