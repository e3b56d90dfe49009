#include "slimpack/cost/attention_transients.h"

#include <algorithm>

namespace slimpack {
namespace {

/// Copies for heads that are folded when `tokens` queries attend to a prefix: what goes in, and the
/// result that comes out. None where they are not folded.
struct FoldedCopies {
  std::int64_t heads;
  std::int64_t q, out;       ///< forward
  std::int64_t queries, dq;  ///< backward: dO, Q, O and log-sum-exp go in

  FoldedCopies(const LayerWidths& w, Tokens tokens) : heads(w.folded_heads(tokens)) {
    const std::int64_t rows = heads > 1 ? tokens.count() : 0;
    q = dq = rows * w.q;
    out = rows * (w.q + w.lse);
    queries = rows * (3 * w.q + w.lse);
  }
};

/// What a slice's forward attention holds at most beyond its own output and log-sum-exp.
std::int64_t slice_forward(const LayerWidths& w, const Slice& s) {
  const std::int64_t tokens = s.length().count();
  const std::int64_t own = w.tile(s.length(), s.length());
  if (s.begin == Tokens(0)) return own;
  // The prefix's result beside the own block's; merging adds the new log-sum-exp and two shares.
  const FoldedCopies copies(w, s.length());
  const std::int64_t kernel = copies.q + w.tile(s.length() * copies.heads, s.prefix());
  return std::max({own, tokens * (w.q + w.lse) + std::max(kernel, copies.out),
                   tokens * (w.q + 4 * w.lse + w.merging())});
}

/// The attention of all slices: what it holds at most beyond their outputs and log-sum-exps.
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

/// Of a merged MicroPack: its own queries, then those of the other replicas, one after the other.
std::int64_t merged_forward(const LayerWidths& w, const MicroPack& pack) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t result = w.q + w.lse;
  std::int64_t done = 0;
  std::int64_t part = 0;  // with the result that it makes
  for (const Slice& s : pack.slices) {
    const std::int64_t own = s.length().count();
    const FoldedCopies copies(w, s.length());
    const std::int64_t prefix =
        s.begin == Tokens(0)
            ? 0
            : std::max(copies.q + w.tile(s.length() * copies.heads, s.prefix()), copies.out);
    const std::int64_t block = own * result + w.tile(s.length(), s.length());
    const std::int64_t merging = own * (w.q + 4 * w.lse + w.merging());
    part = std::max(part, (done + own) * result + std::max({prefix, block, merging}));
    done += own;
  }
  if (pack.slices.size() > 1) part = std::max(part, 2 * tokens * result);
  // Beyond the own result: others' queries with their part; then their part of the own, merged.
  return std::max(tokens * w.q + part, tokens * (result + 3 * w.lse + w.merging()));
}

/// What a slice's backward attention holds at most.
std::int64_t slice_backward(const LayerWidths& w, const Slice& s) {
  const std::int64_t tokens = s.length().count();
  const std::int64_t own = tokens * (w.q + 2 * w.k + w.lse);
  const std::int64_t tiles = 2 * w.tile(s.length(), s.length());
  if (s.begin == Tokens(0)) return own + tiles;
  const std::int64_t prefix = tokens * w.q + s.prefix().count() * 2 * w.k;
  const std::int64_t widened = w.rounded ? s.prefix().count() * w.k / w.element * w.accumulator : 0;
  const FoldedCopies copies(w, s.length());
  const std::int64_t kernel = copies.queries + 2 * w.tile(s.length() * copies.heads, s.prefix());
  return own + std::max(tiles, prefix + std::max({kernel, copies.dq, widened}));
}

/// The attention of all slices in backward: what it holds at most beyond its gradients, with the
/// dK and dV that it opens and the stores that it closes on the way.
std::int64_t slices_backward(const LayerWidths& w, const MicroPack& pack,
                             const SequenceLengths& lengths) {
  LayerStores stores;
  std::int64_t most = 0;
  for (const Slice& s : pack.slices) {
    const Tokens length = lengths[s.sequence.index()];
    stores.open(w, s, length);
    most = std::max(most, stores.opened - stores.closed + slice_backward(w, s));
    stores.close(w, s, length);
  }
  return pack.tokens().count() * (w.q + 2 * w.k) + most;
}

/// Likewise of a merged MicroPack, which closes nothing on the way: rows of others visit one after
/// the other, and are given their part of dQ. Own gradients are in the accumulate type; those of
/// keys and values stand in the sequence's unless the slice is all of it.
std::int64_t merged_backward(const LayerWidths& w, const MicroPack& pack,
                             const SequenceLengths& lengths) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t visiting = tokens * (3 * w.q + w.lse);
  const std::int64_t dq = tokens * (w.q / w.element * w.accumulator);
  LayerStores stores;
  std::int64_t done = 0, part = 0, dkv = 0;
  for (const Slice& s : pack.slices) {
    const Tokens length = lengths[s.sequence.index()];
    stores.open(w, s, length);
    const std::int64_t own = s.length().count();
    if (s.begin == Tokens(0) && s.end == length) dkv += own * w.gradients();
    const std::int64_t before = s.prefix().count();
    const std::int64_t widened = w.rounded ? before * w.k / w.element * w.accumulator : 0;
    const FoldedCopies copies(w, s.length());
    const std::int64_t kernel = copies.queries + 2 * w.tile(s.length() * copies.heads, s.prefix());
    const std::int64_t prefix =
        before == 0 ? 0 : before * 2 * w.k + std::max({kernel, copies.dq, widened});
    const std::int64_t block = own * (w.q + 2 * w.k) + 2 * w.tile(s.length(), s.length());
    part = std::max(part, done * w.q + own * (w.q + w.lse) + std::max(prefix, block));
    done += own;
  }
  const std::int64_t joined = pack.slices.size() > 1 ? tokens * w.gradients() : 0;
  const std::int64_t result = joined + tokens * (w.q + 2 * w.k);
  return stores.opened + dq + dkv + std::max(visiting + part, result);
}

}  // namespace

void LayerStores::open(const LayerWidths& w, const Slice& s, Tokens length) {
  if (s.end == length && s.begin > Tokens(0)) opened += w.gradients() * length.count();
}

void LayerStores::close(const LayerWidths& w, const Slice& s, Tokens length) {
  if (s.begin > Tokens(0)) return;
  closed += (2 * w.k + (s.end < length ? w.gradients() : 0)) * length.count();
}

std::int64_t attention_forward_transient(const LayerWidths& w, const MicroPack& pack) {
  return pack.replicas > 1 ? merged_forward(w, pack) : slices_forward(w, pack);
}

std::int64_t attention_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                          const SequenceLengths& lengths) {
  return pack.replicas > 1 ? merged_backward(w, pack, lengths) : slices_backward(w, pack, lengths);
}

}  // namespace slimpack
