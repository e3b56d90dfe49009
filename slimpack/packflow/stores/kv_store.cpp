#include "slimpack/packflow/stores/kv_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {

KvStore::KvStore(const ModelShape& shape, SequenceLengths lengths, std::size_t layers,
                 std::vector<RowShare> shares)
    : kv_heads_(shape.num_kv_heads),
      head_dim_(shape.head_dim),
      lengths_(std::move(lengths)),
      shares_(std::move(shares)),
      entries_(layers, std::vector<Entry>(lengths_.size())) {}

void KvStore::write(std::size_t layer, const Slice& slice, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD) {
  Entry& e = entry(layer, slice.sequence);
  if (slice.begin == Tokens(0)) e.values = allocate_values(slice.sequence, k_TGD.options());
  SLIMPACK_CHECK(e.values.k.defined(), "forward slices of a sequence must ascend from token 0");
  const RowShare own = share(slice.sequence);
  const std::int64_t begin = own.before(slice.begin).count();
  const std::int64_t rows = own.rows(slice).count();
  e.values.k.narrow(0, begin, rows).copy_(k_TGD);
  e.values.v.narrow(0, begin, rows).copy_(v_TGD);
}

KeysValues KvStore::upto(std::size_t layer, const Slice& slice) const {
  const Entry& e = entries_.at(layer).at(slice.sequence.index());
  SLIMPACK_CHECK(e.values.k.defined());
  const std::int64_t rows = share(slice.sequence).before(slice.end).count();
  return {e.values.k.narrow(0, 0, rows), e.values.v.narrow(0, 0, rows)};
}

KeysValues KvStore::gradient(std::size_t layer, const Slice& slice) {
  Entry& e = entry(layer, slice.sequence);
  SLIMPACK_CHECK(e.values.k.defined(), "a sequence runs backward that has not run forward");
  const bool last = is_last(slice);
  if (last && slice.begin > Tokens(0)) e.gradient = allocate_gradient(slice.sequence, e.values.k);
  SLIMPACK_CHECK(last || e.gradient.k.defined(), "backward slices of a sequence must descend");
  return e.gradient;
}

void KvStore::release(std::size_t layer, const Slice& slice) {
  if (slice.begin == Tokens(0)) entry(layer, slice.sequence) = Entry{};
}

void KvStore::release_forward(std::size_t layer, const Slice& slice) {
  if (is_last(slice)) entry(layer, slice.sequence) = Entry{};
}

bool KvStore::empty() const {
  return std::ranges::all_of(entries_, [](const std::vector<Entry>& layer) {
    return std::ranges::none_of(layer, [](const Entry& e) { return e.values.k.defined(); });
  });
}

bool KvStore::is_last(const Slice& slice) const {
  return slice.end == lengths_[slice.sequence.index()];
}

KvStore::Entry& KvStore::entry(std::size_t layer, SequenceId sequence) {
  return entries_.at(layer).at(sequence.index());
}

RowShare KvStore::share(SequenceId sequence) const {
  return shares_.empty() ? RowShare{} : shares_[sequence.index()];
}

std::int64_t KvStore::tokens(SequenceId sequence) const {
  return share(sequence).before(lengths_[sequence.index()]).count();
}

// Keys and values lie head by head: the attention kernel then reads them in one run, which made it
// 5% faster (docs/results.md). Gradients lie token by token, as the kernel returns its addends.
KeysValues KvStore::allocate_values(SequenceId sequence, const at::TensorOptions& options) const {
  const auto make = [&] {
    return at::empty({kv_heads_, tokens(sequence), head_dim_}, options).transpose(0, 1);
  };
  return {make(), make()};
}

KeysValues KvStore::allocate_gradient(SequenceId sequence, const at::Tensor& k_TGD) const {
  const auto options = k_TGD.options().dtype(accumulate_type(k_TGD));
  const auto make = [&] { return at::zeros({tokens(sequence), kv_heads_, head_dim_}, options); };
  return {make(), make()};
}

}  // namespace slimpack
