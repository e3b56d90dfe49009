#include "slimpack/packflow/layer/attention_rows.h"

#include <ATen/ops/tensor.h>

#include <numeric>
#include <utility>

#include "slimpack/cost/attention_rules.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

/// A slice's place among those from the s-th on; none if it is before them.
std::optional<std::size_t> within(std::optional<std::size_t> slice, std::size_t s) {
  return slice && *slice >= s ? std::optional(*slice - s) : std::nullopt;
}

/// Keys that each slice sees, its prefix included.
std::vector<std::int64_t> key_counts(std::span<const Slice> slices) {
  std::vector<std::int64_t> keys;
  for (const Slice& slice : slices) keys.push_back(slice.end.count());
  return keys;
}

}  // namespace

std::int64_t PackRun::rows() const {
  return std::accumulate(rows_of.begin(), rows_of.end(), std::int64_t{0});
}

std::vector<PackRun> pack_runs(const PackShare& share, const at::Tensor& like,
                               const AttentionHeads& heads, std::optional<std::size_t> alone) {
  const bool together = takes_several_sequences(like, heads);
  const std::int64_t key_bytes =
      2 * heads.keys * heads.dim * static_cast<std::int64_t>(like.element_size());
  const std::span<const Slice> slices = share.pack().slices;
  std::vector<PackRun> runs;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < slices.size();) {
    const Zone zone = share.pack().zone(s);
    if (share.of(s).replicas == 0) {
      ++s;
      continue;
    }
    std::size_t alike = 1;  // of the same zone
    while (s + alike < slices.size() && share.pack().zone(s + alike) == zone) ++alike;
    PackRun& run = runs.emplace_back(PackRun{slices.subspan(s, alike), zone, row, {}, {}});
    if (!run.shared())
      run.slices =
          run.slices.first(together ? joined_slices(run.slices, key_bytes, within(alone, s)) : 1);
    for (std::size_t i = 0; i < run.slices.size(); ++i)
      run.rows_of.push_back(share.of(s + i).rows(slices[s + i]).count());
    row += run.rows();
    s += run.slices.size();
  }
  for (PackRun& run : runs)
    if (!run.shared() && run.slices.size() > 1)
      run.sequences.emplace(run.rows_of, key_counts(run.slices));
  return runs;
}

namespace {

/// The member that has a position of a sequence.
std::size_t member_of(const Zone& zone, std::int64_t position) {
  return static_cast<std::size_t>(zone.first + position % zone.size);
}

/// By member, the numbers of rows that `own` has of the slices and the member has in its zone.
template <class OwnZone, class OtherZone>
std::vector<at::Tensor> rows_by_member(const MicroPack& pack, std::int32_t own, OwnZone own_zone,
                                       OtherZone other_zone) {
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(pack.replicas));
  std::int64_t row = 0;
  for (std::size_t s = 0; s < pack.slices.size(); ++s) {
    const RowShare share = row_share(own_zone(s), own);
    if (share.replicas == 0) continue;
    const Slice& slice = pack.slices[s];
    for (std::int64_t position = share.first(slice).count(); position < slice.end.count();
         position += share.replicas)
      rows[member_of(other_zone(s), position)].push_back(row++);
  }
  std::vector<at::Tensor> result;
  for (const std::vector<std::int64_t>& of_member : rows)
    result.push_back(at::tensor(of_member, at::kLong));
  return result;
}

}  // namespace

RemappedRows::RemappedRows(const MicroPack& pack, ReplicaId replica) {
  const std::int32_t own = replica.value() % pack.replicas;
  const auto holds = [&](std::size_t slice) { return pack.row_zone(slice); };
  const auto attends = [&](std::size_t slice) { return pack.zone(slice); };
  held = rows_by_member(pack, own, holds, attends);
  attending = rows_by_member(pack, own, attends, holds);
}

std::vector<at::Tensor*> RemappedRows::tensors() {
  std::vector<at::Tensor*> all;
  for (std::vector<at::Tensor>* rows : {&held, &attending})
    for (at::Tensor& of_member : *rows) all.push_back(&of_member);
  return all;
}

at::Tensor RowRemap::to_attention(const at::Tensor& held) const {
  return moved(held, rows_.held, rows_.attending);
}

at::Tensor RowRemap::from_attention(const at::Tensor& attending) const {
  return moved(attending, rows_.attending, rows_.held);
}

at::Tensor RowRemap::moved(const at::Tensor& own, const RowsByMember& leaving,
                           const RowsByMember& coming) const {
  std::vector<at::Tensor> given;
  std::vector<std::int64_t> counts;
  for (const at::Tensor& rows : leaving) given.push_back(own.index_select(0, rows));
  for (const at::Tensor& rows : coming) counts.push_back(rows.numel());
  std::vector<at::Tensor> taken = group_.rows().all_to_all(std::move(given), counts);
  at::Tensor result =
      empty_rows(own, std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  for (std::size_t m = 0; m < taken.size(); ++m)
    result.index_copy_(0, coming[m], std::exchange(taken[m], {}));
  return result;
}

}  // namespace slimpack
