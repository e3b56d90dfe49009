#include "slimpack/schedule/activation_ledger.h"

#include <algorithm>

namespace slimpack {
namespace {

using PackOfSequence = std::pair<PackId, SequenceId>;

std::size_t sequence_count(const PackPlan& packs) {
  std::size_t count = 0;
  for (const MicroPack& pack : packs.forward)
    for (const Slice& slice : pack.slices) count = std::max(count, slice.sequence.index() + 1);
  return count;
}

/// A forward slice of a sequence. Its `begin` is the `end` of the slice before it in ForwardSlices.
struct ForwardSlice {
  PackId pack;
  Tokens end;
};

/// Forward slices of every sequence, ascending: slice k of sequence q is slices[begin[q] + k].
struct ForwardSlices {
  std::vector<std::size_t> begin;
  std::vector<ForwardSlice> slices;
};

ForwardSlices forward_slices(const PackPlan& packs) {
  ForwardSlices out;
  out.begin.assign(sequence_count(packs) + 1, 0);
  for (const MicroPack& pack : packs.forward)
    for (const Slice& slice : pack.slices) ++out.begin[slice.sequence.index() + 1];
  for (std::size_t q = 1; q < out.begin.size(); ++q) out.begin[q] += out.begin[q - 1];
  out.slices.resize(out.begin.back());
  std::vector<std::size_t> next = out.begin;
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    for (const Slice& slice : packs.forward[f].slices)
      out.slices[next[slice.sequence.index()]++] = {PackId(f), slice.end};
  return out;
}

/// Pairs (backward pack, forward pack that it frees). A backward slice [begin, end) uses the
/// forward slices that overlap it, and the last use of a forward pack frees it.
std::vector<std::pair<PackId, PackId>> last_uses(const PackPlan& packs) {
  const ForwardSlices forward = forward_slices(packs);
  std::vector<PackId> last_use(packs.forward.size());
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    for (const Slice& slice : packs.backward[b].slices) {
      const auto first = forward.slices.begin() +
                         static_cast<std::ptrdiff_t>(forward.begin[slice.sequence.index()]);
      const auto last = forward.slices.begin() +
                        static_cast<std::ptrdiff_t>(forward.begin[slice.sequence.index() + 1]);
      auto use = std::upper_bound(first, last, slice.begin,
                                  [](Tokens at, const ForwardSlice& s) { return at < s.end; });
      for (Tokens reached = slice.begin; use != last && reached < slice.end; ++use) {
        last_use[use->pack.index()] = PackId(b);
        reached = use->end;
      }
    }
  std::vector<std::pair<PackId, PackId>> pairs;
  pairs.reserve(last_use.size());
  for (std::size_t f = 0; f < last_use.size(); ++f) pairs.emplace_back(last_use[f], PackId(f));
  return pairs;
}

}  // namespace

RowFlow row_flow(const PackPlan& packs) {
  std::vector<PackOfSequence> kv_begin;
  std::vector<PackOfSequence> dkv_begin;
  std::vector<PackOfSequence> dkv_end;
  std::vector<PackOfSequence> sequence_end;
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    for (const Slice& slice : packs.forward[f].slices)
      if (slice.begin == Tokens(0)) kv_begin.emplace_back(PackId(f), slice.sequence);

  std::vector<bool> running(sequence_count(packs), false);
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    for (const Slice& slice : packs.backward[b].slices) {
      const bool first = !running[slice.sequence.index()];
      running[slice.sequence.index()] = true;
      const bool last = slice.begin == Tokens(0);
      if (first && !last) dkv_begin.emplace_back(PackId(b), slice.sequence);
      if (!first && last) dkv_end.emplace_back(PackId(b), slice.sequence);
      if (last) sequence_end.emplace_back(PackId(b), slice.sequence);
    }
  const std::size_t backward = packs.backward.size();
  return {ByPack<PackId>(backward, last_uses(packs)),
          ByPack<SequenceId>(packs.forward.size(), kv_begin),
          ByPack<SequenceId>(backward, dkv_begin), ByPack<SequenceId>(backward, dkv_end),
          ByPack<SequenceId>(backward, sequence_end)};
}

StageStores stage_stores(const RowFlow& flow, const TaskBytes& bytes, StageId stage) {
  const auto& rows = bytes.rows[stage.index()];
  const auto& kv = bytes.kv[stage.index()];
  const auto& dkv = bytes.dkv[stage.index()];
  StageStores stores;
  stores.forward_opens.resize(flow.kv_begin.packs());
  for (std::size_t f = 0; f < stores.forward_opens.size(); ++f) {
    stores.forward_opens[f] = rows[f];
    for (const SequenceId q : flow.kv_begin[PackId(f)]) stores.forward_opens[f] += kv[q.index()];
  }
  stores.backward_opens.resize(flow.rows_end.packs());
  stores.backward_closes.resize(flow.rows_end.packs());
  for (std::size_t b = 0; b < stores.backward_opens.size(); ++b) {
    const PackId pack(b);
    for (const SequenceId q : flow.dkv_begin[pack]) stores.backward_opens[b] += dkv[q.index()];
    for (const SequenceId q : flow.dkv_end[pack]) stores.backward_closes[b] += dkv[q.index()];
    for (const SequenceId q : flow.sequence_end[pack]) stores.backward_closes[b] += kv[q.index()];
    for (const PackId f : flow.rows_end[pack]) stores.backward_closes[b] += rows[f.index()];
  }
  return stores;
}

ActivationLedger::ActivationLedger(const RowFlow& flow, const TaskBytes& bytes, std::size_t rank,
                                   const StagePlacement& placement)
    : flow_(flow), bytes_(bytes), placement_(placement), rank_(rank) {
  for (const StageId s : placement.stages_of(static_cast<std::int32_t>(rank)))
    stores_.push_back(stage_stores(flow, bytes, s));
}

Bytes ActivationLedger::peak_of(const Action& action) const {
  const Bytes live = live_ - taken_from_vocabulary(action);
  const std::size_t s = action.stage.index();
  const std::size_t p = action.pack.index();
  switch (action.pass) {
    case Pass::kForward:
      return live + stores_of(action.stage).forward_opens[p] + bytes_.forward_transient[s][p];
    case Pass::kBackward:
      return live + bytes_.backward_transient[s][p];
    case Pass::kInputGradient:
      return live + bytes_.input_transient[s][p];
    case Pass::kWeightGradient:
      return live + bytes_.weight_transient[s][p];
    case Pass::kEmbedding:
    case Pass::kHead:
    case Pass::kEmbeddingGradient:
      return live + bytes_.joint_transient[joint_index(action.pass)][p];
  }
  return live;
}

Bytes ActivationLedger::taken_from_vocabulary(const Action& action) const {
  if (!bytes_.spread_vocabulary()) return {};
  const std::size_t s = action.stage.index();
  if (action.pass == Pass::kForward && s == 0) return bytes_.forward_input[action.pack.index()];
  if (goes_back(action.pass) && s + 1 == bytes_.rows.size())
    return bytes_.backward_input[action.pack.index()];
  return {};
}

// Counts the rows that the first and the last stage keep for E, H and G, or have from them.
void ActivationLedger::run_vocabulary(const Action& action) {
  if (!bytes_.spread_vocabulary()) return;
  const std::size_t s = action.stage.index();
  const std::size_t p = action.pack.index();
  const std::size_t last = bytes_.rows.size() - 1;
  const auto has = [&](std::size_t stage) {
    return static_cast<std::size_t>(placement_.rank_of(StageId(stage))) == rank_;
  };
  const bool first_rank = has(0), last_rank = has(last);
  if (action.pass == Pass::kEmbedding && first_rank) live_ += bytes_.forward_input[p];
  live_ -= taken_from_vocabulary(action);
  if (action.pass == Pass::kForward && s == last) live_ += bytes_.forward_input[p];
  if (action.pass == Pass::kHead && last_rank) {
    live_ += bytes_.backward_input[p];
    for (const PackId f : flow_.rows_end[action.pack]) live_ -= bytes_.forward_input[f.index()];
  }
  if (goes_back(action.pass) && s == 0) live_ += bytes_.backward_input[p];
  if (action.pass == Pass::kEmbeddingGradient && first_rank) live_ -= bytes_.backward_input[p];
}

void ActivationLedger::run(const Action& action) {
  run_vocabulary(action);
  if (is_joint(action.pass)) return;
  const std::size_t s = action.stage.index();
  const std::size_t p = action.pack.index();
  const StageStores& stores = stores_of(action.stage);
  if (action.pass == Pass::kForward) live_ += stores.forward_opens[p];
  if (goes_back(action.pass)) live_ += stores.backward_opens[p] - stores.backward_closes[p];
  if (action.pass == Pass::kInputGradient) live_ += bytes_.weight_operands[s][p];
  if (action.pass == Pass::kWeightGradient) live_ -= bytes_.weight_operands[s][p];
}

}  // namespace slimpack
