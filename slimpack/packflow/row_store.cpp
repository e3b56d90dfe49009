#include "slimpack/packflow/row_store.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

RowStore::RowStore(const PackPlan& packs, std::size_t layers)
    : segments_(regroup(packs)), kept_(layers, std::vector<Kept>(packs.forward.size())) {
  for (const MicroPack& pack : packs.forward) forward_rows_.push_back(pack.tokens());
}

void RowStore::put(PackId forward, std::size_t layer, LayerRows rows) {
  Kept& kept = kept_.at(layer).at(forward.index());
  SLIMPACK_CHECK(kept.unused == Tokens(0));
  kept = {std::move(rows), forward_rows_[forward.index()]};
}

LayerRows RowStore::gather(PackId backward, std::size_t layer) const {
  LayerRows result;
  auto out = result.all();
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const RowSegment& segment : segments_.at(backward.index())) {
      const Kept& kept = kept_.at(layer).at(segment.forward.index());
      SLIMPACK_CHECK(kept.unused >= segment.rows, "rows are gathered before put or after release");
      const at::Tensor& rows = *kept.rows.all()[i];
      if (rows.defined())
        parts.push_back(rows.narrow(0, segment.begin.count(), segment.rows.count()));
    }
    if (!parts.empty()) *out[i] = parts.size() == 1 ? parts.front() : at::cat(parts);
  }
  return result;
}

void RowStore::release(PackId backward, std::size_t layer) {
  for (const RowSegment& segment : segments_.at(backward.index())) {
    Kept& kept = kept_.at(layer).at(segment.forward.index());
    SLIMPACK_CHECK(kept.unused >= segment.rows);
    kept.unused -= segment.rows;
    if (kept.unused == Tokens(0)) kept.rows = LayerRows{};
  }
}

bool RowStore::empty() const {
  return std::ranges::all_of(kept_, [](const std::vector<Kept>& layer) {
    return std::ranges::all_of(layer, [](const Kept& k) { return k.unused == Tokens(0); });
  });
}

}  // namespace slimpack
