#include "slimpack/packflow/layer/pack_runs.h"

#include <numeric>
#include <utility>

namespace slimpack {

std::int64_t PackRun::rows() const {
  return std::accumulate(rows_of.begin(), rows_of.end(), std::int64_t{0});
}

std::vector<PackRun> pack_runs(const PackShare& share, const at::Tensor& like,
                               const AttentionHeads& heads) {
  const bool together = takes_several_sequences(like, heads);
  const MicroPack& pack = share.pack();
  std::vector<PackRun> runs;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < pack.slices.size(); ++s) {
    const Slice& slice = pack.slices[s];
    const Zone zone = pack.zone(s);
    const RowShare own = share.of(s);
    if (own.replicas == 0) continue;
    const auto joins = [&](const PackRun& before) {
      if (before.zone != zone) return false;
      return before.shared() ||
             (together && slice.begin == Tokens(0) && before.slices.back().begin == Tokens(0));
    };
    if (runs.empty() || !joins(runs.back())) runs.push_back({{&slice, 0}, zone, row, {}, {}});
    PackRun& run = runs.back();
    run.slices = {run.slices.data(), run.slices.size() + 1};
    run.rows_of.push_back(own.rows(slice).count());
    row += run.rows_of.back();
  }
  for (PackRun& run : runs)
    if (!run.shared() && run.slices.size() > 1)
      run.sequences.emplace(run.rows_of, run.rows_of, like.device());
  return runs;
}

}  // namespace slimpack
