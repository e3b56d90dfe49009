#include "slimpack/packflow/stores/kv_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// Rows of keys or values in a tensor of their own: the given one if it is as room() makes it and
/// has no other rows.
at::Tensor kept_rows(const at::Tensor& all_TGD, std::int64_t begin, std::int64_t rows) {
  if (rows == all_TGD.size(0) && all_TGD.transpose(0, 1).is_contiguous() &&
      all_TGD.storage().nbytes() == all_TGD.nbytes())
    return all_TGD;
  const at::Tensor some_TGD = all_TGD.narrow(0, begin, rows);
  return KvStore::room(some_TGD).copy_(some_TGD);
}

}  // namespace

KvStore::KvStore(const LayerShape& layer, SequenceLengths lengths, std::size_t layers,
                 std::vector<RowShare> shares, std::vector<PackId> freed_by)
    : kv_heads_(layer.num_kv_heads),
      head_dim_(layer.head_dim),
      lengths_(std::move(lengths)),
      shares_(std::move(shares)),
      freed_by_(std::move(freed_by)),
      entries_(layers, std::vector<Entry>(lengths_.size())) {}

at::Tensor KvStore::room(const at::Tensor& like_TGD) {
  return at::empty({like_TGD.size(1), like_TGD.size(0), like_TGD.size(2)}, like_TGD.options())
      .transpose(0, 1);
}

std::size_t KvStore::sharing(std::span<const Slice> slices) const {
  if (freed_by_.empty()) return 0;
  const auto whole = [&](const Slice& s) {
    return holds(s.sequence) && s.begin == Tokens(0) && is_last(s);
  };
  const auto freed_by = [&](const Slice& s) { return freed_by_[s.sequence.index()]; };
  std::size_t count = 0;
  while (count < slices.size() && whole(slices[count]) &&
         freed_by(slices[count]) == freed_by(slices.front()))
    ++count;
  return count;
}

void KvStore::write(std::size_t layer, std::span<const Slice> slices, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD) {
  std::int64_t row = 0;
  const auto rows_of = [&](const Slice& slice) {
    return share(slice.sequence).rows(slice).count();
  };
  while (!slices.empty()) {
    if (!holds(slices.front().sequence)) {
      slices = slices.subspan(1);
      continue;
    }
    const std::size_t together = sharing(slices);
    if (together == 0) {
      const std::int64_t rows = rows_of(slices.front());
      write_slice(layer, slices.front(), KeysValues{k_TGD, v_TGD}.narrow(row, rows));
      row += rows;
      slices = slices.subspan(1);
      continue;
    }
    std::int64_t rows = 0;
    for (const Slice& slice : slices.first(together)) rows += rows_of(slice);
    const KeysValues kept{kept_rows(k_TGD, row, rows), kept_rows(v_TGD, row, rows)};
    std::int64_t first = 0;
    for (const Slice& slice : slices.first(together)) {
      entry(layer, slice.sequence) = {kept, first, {}};
      first += rows_of(slice);
    }
    row += rows;
    slices = slices.subspan(together);
  }
}

void KvStore::write_slice(std::size_t layer, const Slice& slice, const KeysValues& kv) {
  Entry& e = entry(layer, slice.sequence);
  if (slice.begin == Tokens(0)) e.values = allocate_values(slice.sequence, kv.k.options());
  SLIMPACK_CHECK(e.values.k.defined(), "forward slices of a sequence must ascend from token 0");
  const RowShare own = share(slice.sequence);
  const std::int64_t begin = own.before(slice.begin).count();
  const std::int64_t rows = own.rows(slice).count();
  e.values.k.narrow(0, begin, rows).copy_(kv.k);
  e.values.v.narrow(0, begin, rows).copy_(kv.v);
}

KeysValues KvStore::upto(std::size_t layer, const Slice& slice) const {
  return upto(layer, std::span(&slice, 1));
}

KeysValues KvStore::upto(std::size_t layer, std::span<const Slice> slices) const {
  std::vector<at::Tensor> k, v;
  while (!slices.empty()) {
    const Entry& first = entries_.at(layer).at(slices.front().sequence.index());
    SLIMPACK_CHECK(first.values.k.defined());
    std::int64_t rows = 0;
    std::size_t count = 0;
    for (; count < slices.size(); ++count) {
      const Slice& slice = slices[count];
      const Entry& next = entries_.at(layer).at(slice.sequence.index());
      if (!next.values.k.is_same(first.values.k) || next.row != first.row + rows) break;
      rows += share(slice.sequence).before(slice.end).count();
    }
    const KeysValues lying_so = first.values.narrow(first.row, rows);
    k.push_back(lying_so.k);
    v.push_back(lying_so.v);
    slices = slices.subspan(count);
  }
  return {joined_rows(k), joined_rows(v)};
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
// 5% faster (bench/README.md). Gradients lie token by token, as the kernel returns its addends.
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
