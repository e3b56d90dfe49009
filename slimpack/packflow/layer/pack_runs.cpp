#include "slimpack/packflow/layer/pack_runs.h"

#include <numeric>
#include <utility>

#include "slimpack/cost/attention_rules.h"

namespace slimpack {
namespace {

/// A slice's place among those from the s-th on; none if it is before them.
std::optional<std::size_t> within(std::optional<std::size_t> slice, std::size_t s) {
  return slice && *slice >= s ? std::optional(*slice - s) : std::nullopt;
}

/// Keys that each slice sees, its prefix included.
std::vector<std::int64_t> keys_of(std::span<const Slice> slices) {
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
      run.sequences.emplace(run.rows_of, keys_of(run.slices));
  return runs;
}

}  // namespace slimpack
