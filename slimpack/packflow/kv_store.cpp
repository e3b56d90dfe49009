#include "slimpack/packflow/kv_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/tensor.h"

namespace slimpack {

KvStore::KvStore(const ModelShape& shape, Dtype dtype, SequenceLengths lengths, std::size_t layers)
    : kv_heads_(shape.num_kv_heads),
      head_dim_(shape.head_dim),
      dtype_(dtype),
      lengths_(std::move(lengths)),
      entries_(layers, std::vector<Entry>(lengths_.size())) {}

void KvStore::write(std::size_t layer, const Slice& slice, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD) {
  Entry& e = entry(layer, slice.sequence);
  if (slice.begin == Tokens(0)) e.values = allocate(slice.sequence, compute_type(dtype_), false);
  SLIMPACK_CHECK(e.values.k.defined(), "forward slices of a sequence must ascend from token 0");
  e.values.k.narrow(0, slice.begin.count(), slice.length().count()).copy_(k_TGD);
  e.values.v.narrow(0, slice.begin.count(), slice.length().count()).copy_(v_TGD);
}

KeysValues KvStore::upto(std::size_t layer, const Slice& slice) const {
  const Entry& e = entries_.at(layer).at(slice.sequence.index());
  SLIMPACK_CHECK(e.values.k.defined());
  return {e.values.k.narrow(0, 0, slice.end.count()), e.values.v.narrow(0, 0, slice.end.count())};
}

KeysValues KvStore::gradient(std::size_t layer, const Slice& slice) {
  Entry& e = entry(layer, slice.sequence);
  const bool last = slice.end == lengths_[slice.sequence.index()];
  if (last && slice.begin > Tokens(0))
    e.gradient = allocate(slice.sequence, accumulate_type(dtype_), true);
  SLIMPACK_CHECK(last || e.gradient.k.defined(), "backward slices of a sequence must descend");
  return e.gradient;
}

void KvStore::release(std::size_t layer, const Slice& slice) {
  if (slice.begin == Tokens(0)) entry(layer, slice.sequence) = Entry{};
}

bool KvStore::empty() const {
  return std::ranges::all_of(entries_, [](const std::vector<Entry>& layer) {
    return std::ranges::none_of(layer, [](const Entry& e) { return e.values.k.defined(); });
  });
}

KvStore::Entry& KvStore::entry(std::size_t layer, SequenceId sequence) {
  return entries_.at(layer).at(sequence.index());
}

KeysValues KvStore::allocate(SequenceId sequence, at::ScalarType type, bool zero) const {
  const std::array<std::int64_t, 3> sizes{lengths_[sequence.index()].count(), kv_heads_, head_dim_};
  const auto make = [&] { return zero ? at::zeros(sizes, type) : at::empty(sizes, type); };
  return {make(), make()};
}

}  // namespace slimpack
