#include "slimpack/packflow/stores/row_store.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

/// The segments of each backward pack, in the part of the replica's rows that `part` selects.
template <class Part>
std::vector<std::vector<RowSegment>> segments_of(const PackPlan& packs, Part part,
                                                 const RowHolder& holder) {
  return regroup(packs, [&](const MicroPack& pack, std::size_t slice) {
    return part(PackShare(pack, holder.replica)).of(slice);
  });
}

}  // namespace

RowStore::RowStore(const PackPlan& packs, std::size_t layers, const RowHolder& holder,
                   std::vector<bool> offloads)
    : segments_(segments_of(
          packs, [&](const PackShare& held) { return held; }, holder)),
      attention_segments_(segments_of(
          packs, [&](const PackShare& held) { return held.in_attention(); }, holder)),
      hidden_segments_(segments_of(
          packs, [&](const PackShare& held) { return held.hidden(holder.tensor, holder.index); },
          holder)),
      kept_(layers, std::vector<Kept>(packs.forward.size())),
      none_(layers),
      offloads_(std::move(offloads)) {
  for (const MicroPack& pack : packs.forward) {
    const PackShare held(pack, holder.replica);
    forward_rows_.push_back(held.rows() + held.in_attention().rows());
  }
}

void RowStore::put(PackId forward, std::size_t layer, LayerRows rows) {
  Kept& kept = kept_.at(layer).at(forward.index());
  SLIMPACK_CHECK(kept.unused == Tokens(0));
  remember_form(layer, rows);
  // Nobody would free tensors without rows.
  if (forward_rows_[forward.index()] == Tokens(0)) return;
  settle();
  if (offloads(layer)) {
    if (!host_) host_.emplace(rows.x_TH.device());
    rows = host_->send(std::move(rows));
  }
  kept = {std::move(rows), forward_rows_[forward.index()]};
}

void RowStore::settle() {
  if (host_) host_->settle();
}

void RowStore::remember_form(std::size_t layer, const LayerRows& rows) {
  LayerRows& none = none_.at(layer);
  if (std::ranges::any_of(none.all(), [](const at::Tensor* t) { return t->defined(); })) return;
  for (std::size_t i = 0; i < none.all().size(); ++i) {
    const at::Tensor& tensor = *rows.all()[i];
    if (tensor.defined()) *none.all()[i] = empty_rows(tensor, 0);
  }
}

const std::vector<RowSegment>& RowStore::segments(PackId backward, std::size_t tensor) const {
  const LayerRows rows;
  return (rows.hidden(tensor)         ? hidden_segments_
          : rows.in_attention(tensor) ? attention_segments_
                                      : segments_)
      .at(backward.index());
}

RowParts RowStore::parts(PackId backward, std::size_t layer) const {
  RowParts parts;
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const RowSegment& segment : segments(backward, i)) {
      const Kept& kept = kept_.at(layer).at(segment.forward.index());
      SLIMPACK_CHECK(kept.unused >= segment.rows, "rows are gathered before put or after release");
      const at::Tensor& rows = *kept.rows.all()[i];
      if (rows.defined())
        parts[i].push_back(rows.narrow(0, segment.begin.count(), segment.rows.count()));
    }
  return parts;
}

void RowStore::prefetch(PackId backward, std::size_t layer) {
  if (!offloads(layer) || !host_) return;
  SLIMPACK_CHECK(!fetching_, "rows were fetched and not gathered");
  host_->fetch(parts(backward, layer), none_.at(layer));
  fetching_.emplace(backward, layer);
}

BackwardRows RowStore::gather(PackId backward, std::size_t layer) {
  BackwardRows result;
  LayerRows& rows = result.joined;
  if (offloads(layer) && host_) {
    if (!fetching_) prefetch(backward, layer);
    SLIMPACK_CHECK(fetching_ == std::pair(backward, layer), "other rows were fetched");
    fetching_.reset();
    rows = host_->take();
  } else {
    RowParts all_parts = parts(backward, layer);
    for (std::size_t i = 0; i < all_parts.size(); ++i) {
      at::Tensor& out = *rows.all()[i];
      if (all_parts[i].empty()) {
        out = *none_.at(layer).all()[i];
      } else if (&out == &rows.gate_up_TO) {
        result.gate_up_TO = std::move(all_parts[i]);
      } else {
        out = joined_rows(all_parts[i]);
      }
    }
  }
  if (rows.gate_up_TO.defined()) result.gate_up_TO = {std::exchange(rows.gate_up_TO, {})};
  return result;
}

void RowStore::release(PackId backward, std::size_t layer) {
  for (const auto* const segments : {&segments_, &attention_segments_})
    for (const RowSegment& segment : segments->at(backward.index())) {
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
