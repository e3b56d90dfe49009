#include "slimpack/packflow/row_store.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

RowStore::RowStore(const PackPlan& packs, std::size_t layers, ReplicaId replica)
    : segments_(regroup(packs, replica)),
      kept_(layers, std::vector<Kept>(packs.forward.size())),
      none_(layers) {
  for (const MicroPack& pack : packs.forward) {
    const RowShare share = row_share(pack, replica);
    Tokens& rows = forward_rows_.emplace_back(0);
    for (const Slice& slice : pack.slices) rows += share.rows(slice);
  }
}

void RowStore::put(PackId forward, std::size_t layer, LayerRows rows) {
  Kept& kept = kept_.at(layer).at(forward.index());
  SLIMPACK_CHECK(kept.unused == Tokens(0));
  remember_form(layer, rows);
  // Nothing would free what has no rows.
  if (forward_rows_[forward.index()] == Tokens(0)) return;
  kept = {std::move(rows), forward_rows_[forward.index()]};
}

void RowStore::remember_form(std::size_t layer, const LayerRows& rows) {
  LayerRows& none = none_.at(layer);
  if (std::ranges::any_of(none.all(), [](const at::Tensor* t) { return t->defined(); })) return;
  for (std::size_t i = 0; i < none.all().size(); ++i) {
    const at::Tensor& tensor = *rows.all()[i];
    if (!tensor.defined()) continue;
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes[0] = 0;
    *none.all()[i] = at::empty(sizes, tensor.options());
  }
}

LayerRows RowStore::gather(PackId backward, std::size_t layer) const {
  if (segments_.at(backward.index()).empty()) return none_.at(layer);
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
