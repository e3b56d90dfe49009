#include "slimpack/cost/attention_memory.h"

#include <algorithm>
#include <span>
#include <vector>

#include "slimpack/cost/attention_rules.h"

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
  std::span<const Slice> slices;
  std::int64_t queries = 0;
  std::int64_t keys = 0;

  [[nodiscard]] std::int64_t sequences() const { return std::ssize(slices); }
  /// Bytes of K and V laid end to end, which a call of several sequences needs; 0 for one sequence.
  [[nodiscard]] std::int64_t joined_keys(const LayerWidths& w) const {
    return slices.size() > 1 ? 2 * w.k * keys : 0;
  }
};

std::vector<Call> calls_of(const LayerWidths& w, const MicroPack& pack) {
  std::vector<Call> calls;
  for (std::span<const Slice> left = pack.slices; !left.empty();) {
    const std::size_t joined = joined_slices(left, 2 * w.k);
    Call& call = calls.emplace_back(Call{.slices = left.first(joined)});
    for (const Slice& s : call.slices) {
      call.queries += s.length().count();
      call.keys += s.end.count();
    }
    // Keys that a window hides from all queries of a lone slice take part in no call.
    if (const Tokens window(w.shape.window); joined == 1 && window > Tokens(0))
      call.keys = (left.front().window_prefix(window) + left.front().length()).count();
    left = left.subspan(joined);
  }
  return calls;
}

/// attention_forward_transient and attention_backward_transient, for packs that no other replica
/// takes part in. Neighbours that joined_slices joins are one call.
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
                              flash_backward_call(w, call.sequences(), call.queries, call.keys));
    for (const Slice& s : call.slices) stores.close(w, s, lengths[s.sequence.index()]);
  }
  return pack.tokens().count() * (w.q + 2 * w.k) + most;
}

/// Bytes of the kernel's copies when `tokens` queries attend to a prefix with folded heads: of its
/// inputs and of its result. 0 if the heads are not folded.
struct FoldedCopies {
  std::int64_t heads;
  std::int64_t q, out;       ///< forward
  std::int64_t queries, dq;  ///< backward: dO, Q, O and log-sum-exp go in

  FoldedCopies(const LayerWidths& w, Tokens tokens)
      : heads(w.flash() ? 1 : w.folded_heads(tokens)) {
    const std::int64_t rows = heads > 1 ? tokens.count() : 0;
    q = dq = rows * w.q;
    out = rows * (w.q + w.lse);
    queries = rows * (3 * w.q + w.lse);
  }
};

/// Bytes of the kernel itself beyond its result, in one forward call and in one backward call.
/// `heads` are folded into one.
std::int64_t kernel_forward(const LayerWidths& w, Tokens queries, Tokens keys,
                            std::int64_t heads = 1) {
  return w.flash() ? flash_forward_call(w, queries.count()) : w.tile(queries * heads, keys);
}
std::int64_t kernel_backward(const LayerWidths& w, Tokens queries, Tokens keys,
                             std::int64_t heads = 1) {
  return w.flash() ? flash_backward_call(w, 1, queries.count(), keys.count())
                   : 2 * w.tile(queries * heads, keys);
}

/// The slice without the keys that the window hides from all of its queries.
Slice seen_slice(const LayerWidths& w, const Slice& s) {
  if (w.shape.window == 0) return s;
  const Tokens prefix = s.window_prefix(Tokens(w.shape.window));
  return {s.sequence, prefix, prefix + s.length()};
}

/// Whether the kernel takes the slice's queries in blocks, each with the keys in its window.
bool takes_blocks(const LayerWidths& w, const Slice& s) {
  return !w.flash() && w.shape.window > 0 && s.end > Tokens(w.shape.window);
}

/// The block as a slice of which the window hides nothing.
Slice slice_of(const WindowBlock& block, SequenceId sequence) {
  return {sequence, Tokens(block.keys - block.rows), Tokens(block.keys)};
}

/// The tensor that is added to the scores of a masked block.
std::int64_t added_to_scores(const LayerWidths& w, const WindowBlock& block) {
  return block.rows * block.keys * w.accumulator;
}

std::int64_t slice_forward(const LayerWidths& w, const Slice& s);

/// slice_forward in blocks: beyond the output and log-sum-exp of the slice, those of a block.
std::int64_t blocks_forward(const LayerWidths& w, const Slice& s) {
  std::int64_t most = 0;
  for (const WindowBlock& block :
       window_blocks(seen_slice(w, s).prefix().count(), s.length().count(), w.shape.window)) {
    const std::int64_t kernel =
        block.masked ? w.tile(Tokens(block.rows), Tokens(block.keys)) + added_to_scores(w, block)
                     : slice_forward(w, slice_of(block, s.sequence));
    most = std::max(most, block.rows * (w.q + w.lse) + kernel);
  }
  return most;
}

/// The peak of a slice's forward attention beyond its own output and log-sum-exp.
std::int64_t slice_forward(const LayerWidths& w, const Slice& s) {
  if (takes_blocks(w, s)) return blocks_forward(w, s);
  const std::int64_t tokens = s.length().count();
  const std::int64_t own = w.tile(s.length(), s.length());
  if (s.begin == Tokens(0)) return own;
  // The prefix's result lies beside the own block's. Merging them adds the new log-sum-exp and two
  // shares.
  const FoldedCopies copies(w, s.length());
  const std::int64_t kernel = copies.q + w.tile(s.length() * copies.heads, s.prefix());
  return std::max({own, tokens * (w.q + w.lse) + std::max(kernel, copies.out),
                   tokens * (w.q + 4 * w.lse + w.merging())});
}

/// The peak of all slices' forward attention beyond their outputs and log-sum-exps.
std::int64_t slices_forward(const LayerWidths& w, const MicroPack& pack) {
  const std::int64_t tokens = pack.tokens().count();
  std::int64_t to_come = tokens;
  std::int64_t slices = 0;
  for (const Slice& s : pack.slices) {
    to_come -= s.length().count();
    slices = std::max(slices, slice_forward(w, s) - to_come * (w.q + w.lse));
  }
  const std::int64_t joined = pack.slices.size() > 1 ? tokens * (w.q + w.lse) : 0;
  return std::max(slices, joined);
}

/// Keys that travel together: those up to the end of each slice.
std::int64_t keys_of(const MicroPack& pack) {
  std::int64_t keys = 0;
  for (const Slice& s : pack.slices) keys += s.end.count();
  return keys;
}

/// The members of the group whose keys lie beside the own ones at a time: all others if they are
/// gathered, else one, and what is on its way.
std::int64_t visitors(const LayerWidths& w, const MicroPack& pack) {
  return w.runtime.comm == CpCommType::kAllGather ? pack.replicas - 1 : 1;
}

/// Bytes that are on their way while a visitor's rows are attended to: the next visitor's rows, and
/// the result for the visitor before. The first visitor has none before it, the last one none after
/// it. Gathered keys are all there, so nothing is on its way.
std::int64_t on_the_way(const LayerWidths& w, const MicroPack& pack, std::int64_t next,
                        std::int64_t returned) {
  if (pack.replicas == 2 || w.runtime.comm == CpCommType::kAllGather) return 0;
  return pack.replicas == 3 ? std::max(next, returned) : next + returned;
}

/// The widths as one member of a zone sees them: about a g-th of the window's keys are its own.
LayerWidths of_member(const LayerWidths& w, const MicroPack& pack) {
  LayerWidths member = w;
  member.shape.window = share_of(w.shape.window, pack.replicas);
  return member;
}

/// The peak of one member's queries of a slice against keys of one, beyond their result, with a
/// window: the result of those queries that see any, and what the kernel takes.
std::int64_t windowed_part_forward(const LayerWidths& w, const Slice& s) {
  const std::int64_t own = s.length().count();
  return own * (w.q + w.lse) + (w.flash() ? flash_forward_call(w, own) : slice_forward(w, s));
}

/// The peak of slices_forward for a merged MicroPack. Its own queries run first, then those of the
/// other replicas, one replica after the other.
std::int64_t merged_forward(const LayerWidths& w, const MicroPack& pack) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t result = w.q + w.lse;
  std::int64_t done = 0;
  std::int64_t part = 0;  // peak of one replica's queries, with their result
  for (const Slice& s : pack.slices) {
    const std::int64_t own = s.length().count();
    if (w.shape.window > 0) {
      part = std::max(part, (done + own) * result + windowed_part_forward(of_member(w, pack), s));
      done += own;
      continue;
    }
    const FoldedCopies copies(w, s.length());
    const std::int64_t prefix =
        s.begin == Tokens(0)
            ? 0
            : std::max(copies.q + kernel_forward(w, s.length(), s.prefix(), copies.heads),
                       copies.out);
    const std::int64_t block = own * result + kernel_forward(w, s.length(), s.length());
    const std::int64_t merging = own * (w.q + 4 * w.lse + w.merging());
    part = std::max(part, (done + own) * result + std::max({prefix, block, merging}));
    done += own;
  }
  if (pack.slices.size() > 1) part = std::max(part, 2 * tokens * result);
  const std::int64_t merging = tokens * (result + 3 * w.lse + w.merging());
  // Beyond the own result: keys and values of another replica, while those of the next one come.
  if (keys_travel(w.travel(), pack.slices, false)) {
    const std::int64_t visiting = 2 * w.k * keys_of(pack);
    return visitors(w, pack) * visiting + on_the_way(w, pack, visiting, 0) +
           std::max(part, merging);
  }
  // Otherwise the rank holds another replica's queries with their result, and then the results for
  // its own queries while it merges these results. The last visitor's result is there by then.
  const std::int64_t visiting = tokens * w.q, returned = tokens * result;
  return std::max(visiting + part + on_the_way(w, pack, visiting, returned),
                  merging + (pack.replicas > 3 ? visiting : 0) + on_the_way(w, pack, 0, returned));
}

std::int64_t slice_backward(const LayerWidths& w, const Slice& s);

/// slice_backward in blocks: dQ and the sums of dK and dV, then a block's; at the end what the sums
/// are rounded to.
std::int64_t blocks_backward(const LayerWidths& w, const Slice& s) {
  std::int64_t most = w.rounded() ? s.length().count() * 2 * w.k : 0;
  for (const WindowBlock& block :
       window_blocks(seen_slice(w, s).prefix().count(), s.length().count(), w.shape.window)) {
    if (!block.masked) {
      most = std::max(most, slice_backward(w, slice_of(block, s.sequence)));
      continue;
    }
    const std::int64_t result = block.rows * (w.q + w.lse) + block.keys * 2 * w.k;
    const std::int64_t kernel =
        2 * w.tile(Tokens(block.rows), Tokens(block.keys)) + added_to_scores(w, block);
    const std::int64_t widened = w.rounded() ? block.keys * w.k / w.element * w.accumulator : 0;
    most = std::max(most, result + std::max(kernel, widened));
  }
  return s.length().count() * (w.q + w.gradients()) + most;
}

/// The peak of a slice's backward attention.
std::int64_t slice_backward(const LayerWidths& w, const Slice& s) {
  if (takes_blocks(w, s)) return blocks_backward(w, s);
  const std::int64_t tokens = s.length().count();
  const std::int64_t own = tokens * (w.q + 2 * w.k + w.lse);
  const std::int64_t tiles = 2 * w.tile(s.length(), s.length());
  if (s.begin == Tokens(0)) return own + tiles;
  const std::int64_t prefix = tokens * w.q + s.prefix().count() * 2 * w.k;
  const std::int64_t widened =
      w.rounded() ? s.prefix().count() * w.k / w.element * w.accumulator : 0;
  const FoldedCopies copies(w, s.length());
  const std::int64_t kernel = copies.queries + 2 * w.tile(s.length() * copies.heads, s.prefix());
  return own + std::max(tiles, prefix + std::max({kernel, copies.dq, widened}));
}

/// A slice without the keys that its rank gives away.
Slice without_given(const Slice& s, const ExchangeSide& exchange) {
  return {s.sequence, s.begin - exchange.keys, s.end - exchange.keys};
}

/// The peak of slices_forward with an exchange. The result may come back to the giver at any time;
/// the giver merges the result once all slices are done. The taker's own slices are done when the
/// other rank's queries run.
std::int64_t exchanging_forward(const LayerWidths& w, const MicroPack& pack,
                                const ExchangeSide& exchange) {
  const std::int64_t queries = exchange.queries.count();
  if (exchange.gives) {
    MicroPack kept = pack;
    kept.slices[exchange.slice] = without_given(pack.slices[exchange.slice], exchange);
    return std::max(queries * (w.q + w.lse) + slices_forward(w, kept),
                    queries * (w.q + 4 * w.lse + w.merging()));
  }
  const FoldedCopies copies(w, exchange.queries);
  const std::int64_t kernel =
      copies.q + kernel_forward(w, exchange.queries, exchange.keys, copies.heads);
  return std::max(slices_forward(w, pack), queries * (w.q + w.lse) + std::max(kernel, copies.out));
}

/// The peak of the giver's slice in backward beyond what comes back from the taker.
std::int64_t giving_slice_backward(const LayerWidths& w, const Slice& s,
                                   const ExchangeSide& exchange) {
  const std::int64_t keys = exchange.keys.count();
  const std::int64_t widened = w.rounded() ? keys * w.k / w.element * w.accumulator : 0;
  return std::max(slice_backward(w, without_given(s, exchange)),
                  s.length().count() * (w.q + 2 * w.k) + widened);
}

/// The peak at which the taker runs the other rank's queries backward.
std::int64_t taken_backward(const LayerWidths& w, const ExchangeSide& exchange) {
  const FoldedCopies copies(w, exchange.queries);
  const std::int64_t kernel =
      copies.queries + kernel_backward(w, exchange.queries, exchange.keys, copies.heads);
  return exchange.queries.count() * w.q + exchange.keys.count() * 2 * w.k +
         std::max(kernel, copies.dq);
}

/// The peak of all slices' backward attention. It includes the gradients of q, k and v, the dK and
/// dV that open, and the stores that close on the way. `exchange` may be null.
std::int64_t slices_backward(const LayerWidths& w, const MicroPack& pack,
                             const SequenceLengths& lengths, const ExchangeSide* exchange) {
  LayerStores stores;
  std::int64_t most = 0;
  const auto run = [&](const Slice& s, std::int64_t peak) {
    const Tokens length = lengths[s.sequence.index()];
    stores.open(w, s, length);
    most = std::max(most, stores.opened - stores.closed + peak);
    stores.close(w, s, length);
  };
  const Slice* giving =
      exchange != nullptr && exchange->gives ? &pack.slices[exchange->slice] : nullptr;
  // It may come back at any time.
  const std::int64_t back =
      giving == nullptr ? 0 : exchange->queries.count() * w.q + exchange->keys.count() * 2 * w.k;
  for (const Slice& s : pack.slices)
    if (&s != giving) run(s, back + slice_backward(w, s));
  if (giving != nullptr) run(*giving, back + giving_slice_backward(w, *giving, *exchange));
  if (exchange != nullptr && !exchange->gives)
    most = std::max(most, stores.opened - stores.closed + taken_backward(w, *exchange));
  return pack.tokens().count() * (w.q + 2 * w.k) + most;
}

/// windowed_part_forward of backward, beyond the gradient of the queries.
std::int64_t windowed_part_backward(const LayerWidths& w, const Slice& s) {
  if (!w.flash()) return slice_backward(w, s);
  const Slice seen = seen_slice(w, s);
  return s.length().count() * w.q + seen.end.count() * 2 * w.k +
         flash_backward_call(w, 1, s.length().count(), seen.end.count());
}

/// The peak of slices_backward for a merged MicroPack, which closes no stores on the way. The other
/// replicas' rows visit one replica at a time and get their part of dQ. The own gradients are in
/// the accumulate type. Gradients of keys and values lie in the sequence's dK and dV, unless the
/// slice is the whole sequence.
std::int64_t merged_backward(const LayerWidths& w, const MicroPack& pack,
                             const SequenceLengths& lengths) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t keys = keys_of(pack);
  const std::int64_t queries = tokens * (3 * w.q + w.lse);
  const std::int64_t visiting = keys_travel(w.travel(), pack.slices, true)
                                    ? visitors(w, pack) * keys * (2 * w.k + w.gradients()) +
                                          on_the_way(w, pack, keys * 2 * w.k, keys * w.gradients())
                                    : queries + on_the_way(w, pack, queries, tokens * w.q);
  const std::int64_t dq = tokens * (w.q / w.element * w.accumulator);
  LayerStores stores;
  std::int64_t done = 0, part = 0, dkv = 0;
  for (const Slice& s : pack.slices) {
    const Tokens length = lengths[s.sequence.index()];
    stores.open(w, s, length);
    const std::int64_t own = s.length().count();
    if (s.begin == Tokens(0) && s.end == length) dkv += own * w.gradients();
    if (w.shape.window > 0) {
      const std::int64_t member = windowed_part_backward(of_member(w, pack), s);
      part = std::max(part, (done + own) * w.q + member);
      done += own;
      continue;
    }
    const std::int64_t before = s.prefix().count();
    const bool widens = w.rounded() && !w.flash();
    const std::int64_t widened = widens ? before * w.k / w.element * w.accumulator : 0;
    const FoldedCopies copies(w, s.length());
    const std::int64_t kernel =
        copies.queries + kernel_backward(w, s.length(), s.prefix(), copies.heads);
    const std::int64_t prefix =
        before == 0 ? 0 : before * 2 * w.k + std::max({kernel, copies.dq, widened});
    const std::int64_t block = own * (w.q + 2 * w.k) + kernel_backward(w, s.length(), s.length());
    part = std::max(part, done * w.q + own * (w.q + w.lse) + std::max(prefix, block));
    done += own;
  }
  const std::int64_t joined = pack.slices.size() > 1 ? tokens * w.gradients() : 0;
  const std::int64_t result = joined + tokens * (w.q + 2 * w.k);
  return stores.opened + dq + dkv + std::max(visiting + part, result);
}

/// The slices of each zone as a MicroPack of their own, which its members run together.
std::vector<MicroPack> packs_by_zone(const MicroPack& pack) {
  std::vector<MicroPack> out;
  for (std::size_t i = 0; i < pack.slices.size(); ++i) {
    if (i == 0 || pack.zone(i) != pack.zone(i - 1)) out.push_back({{}, pack.zone(i).size});
    out.back().slices.push_back(pack.slices[i]);
  }
  return out;
}

/// The sum of `of` over the zones of the MicroPack's slices. Zones take turns: each holds its own
/// bytes while the others run.
template <class Of>
std::int64_t of_zones(const MicroPack& pack, Of of) {
  std::int64_t sum = 0;
  for (const MicroPack& of_zone : packs_by_zone(pack)) sum += of(of_zone);
  return sum;
}

}  // namespace

std::int64_t flash_forward_call(const LayerWidths& w, std::int64_t queries) {
  return w.runtime.kernel_bytes ? queries * w.lse : 0;
}

std::int64_t flash_backward_call(const LayerWidths& w, std::int64_t sequences, std::int64_t queries,
                                 std::int64_t keys) {
  if (!w.runtime.kernel_bytes) return 0;
  if (w.runtime.flash_release > 2)
    return queries * w.lse + hopper_backward_call(w, sequences, queries, keys);
  const std::int64_t heads = w.shape.num_heads;
  const std::int64_t padded =
      sequences > 1 ? queries + kQueryBlock * sequences : rounded_up(queries, kQueryBlock);
  const std::int64_t copies = share_of(w.runtime.multiprocessors, sequences * heads);
  const std::int64_t head_dim = rounded_up(w.shape.head_dim, w.shape.head_dim <= 128 ? 32 : 64);
  const std::int64_t dq = copies * padded * heads * head_dim * w.accumulator;
  const std::int64_t expanded = heads == w.shape.num_kv_heads ? 0 : 2 * keys * w.q;
  return (queries + padded) * w.lse + dq + expanded;
}

void LayerStores::open(const LayerWidths& w, const Slice& s, Tokens length) {
  if (s.end == length && s.begin > Tokens(0)) opened += w.gradients() * length.count();
}

void LayerStores::close(const LayerWidths& w, const Slice& s, Tokens length) {
  if (s.begin > Tokens(0)) return;
  closed += (2 * w.k + (s.end < length ? w.gradients() : 0)) * length.count();
}

std::int64_t attention_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                         const ExchangeSide* exchange) {
  if (!pack.zones.empty()) {
    const std::int64_t zones =
        of_zones(pack, [&](const MicroPack& zone) { return attention_forward_transient(w, zone); });
    return std::max(zones, pack.tokens().count() * (w.q + w.lse));  // joined at the end
  }
  if (pack.replicas > 1) return merged_forward(w, pack);
  if (exchange == nullptr)
    return w.flash() ? flash_forward_transient(w, pack) : slices_forward(w, pack);
  const std::int64_t exchanging = exchanging_forward(w, pack, *exchange);
  return w.flash() ? std::max(flash_forward_transient(w, pack), exchanging) : exchanging;
}

std::int64_t attention_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                          const SequenceLengths& lengths,
                                          const ExchangeSide* exchange) {
  if (!pack.zones.empty())
    return of_zones(pack, [&](const MicroPack& zone) {
      return attention_backward_transient(w, zone, lengths);
    });
  if (pack.replicas > 1) return merged_backward(w, pack, lengths);
  if (!w.flash()) return slices_backward(w, pack, lengths, exchange);
  const std::int64_t own = flash_backward_transient(w, pack, lengths);
  return exchange == nullptr ? own : std::max(own, slices_backward(w, pack, lengths, exchange));
}

}  // namespace slimpack
