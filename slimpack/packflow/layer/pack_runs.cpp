#include "slimpack/packflow/layer/pack_runs.h"

#include <numeric>
#include <utility>

namespace slimpack {

std::int64_t PackRun::rows() const {
  return std::accumulate(rows_of.begin(), rows_of.end(), std::int64_t{0});
}

std::vector<PackRun> pack_runs(const MicroPack& pack, const RowShare& share, const at::Tensor& like,
                               std::int64_t head_dim) {
  const bool together = takes_several_sequences(like, head_dim);
  std::vector<PackRun> runs;
  std::int64_t row = 0;
  for (const Slice& slice : pack.slices) {
    const bool joins = together && !runs.empty() && slice.begin == Tokens(0) &&
                       runs.back().slices.back().begin == Tokens(0);
    if (!joins) runs.push_back({{&slice, 0}, row, {}, {}});
    PackRun& run = runs.back();
    run.slices = {run.slices.data(), run.slices.size() + 1};
    run.rows_of.push_back(share.rows(slice).count());
    row += run.rows_of.back();
  }
  for (PackRun& run : runs)
    if (run.slices.size() > 1) run.sequences.emplace(run.rows_of, like.device());
  return runs;
}

}  // namespace slimpack
