// Key/value store: K and V of every sequence in flight, and the gradients that later slices leave
// for earlier ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

/// Keys and values of one stage during one step, per layer and sequence, each allocated once at
/// full length; whole sequences that are written and freed together share one tensor. A merged
/// sequence has only the rank's share here (plan/row_share.h); "slice" means that share. Slices of
/// which the rank holds nothing are passed over. K/V live from the first forward slice of their
/// sequence to its last backward slice, or, where no backward comes, to its last forward slice; the
/// gradient accumulators only while a sequence is between its backward slices.
class KvStore {
 public:
  /// By sequence: `shares`, or empty = all whole; `freed_by`, the backward pack that frees it, or
  /// empty = no two share a tensor.
  KvStore(const LayerShape& layer, SequenceLengths lengths, std::size_t layers,
          std::vector<RowShare> shares = {}, std::vector<PackId> freed_by = {});

  /// A new tensor like the given keys or values, laid out as the store keeps them. write() takes
  /// over such keys without a copy where they are all of what shares a tensor.
  [[nodiscard]] static at::Tensor room(const at::Tensor& like_TGD);

  /// Writes the rows of a MicroPack's slices, which nobody may change any more; opens a sequence,
  /// on their device and in their type, with its first slice.
  void write(std::size_t layer, std::span<const Slice> slices, const at::Tensor& k_TGD,
             const at::Tensor& v_TGD);

  /// Keys and values of the tokens before slice.end: views.
  [[nodiscard]] KeysValues upto(std::size_t layer, const Slice& slice) const;
  /// Keys and values of several slices, those of one below those of another: views where they lie
  /// so, else a copy.
  [[nodiscard]] KeysValues upto(std::size_t layer, std::span<const Slice> slices) const;

  /// The accumulated gradient of the whole sequence for a slice that runs backward now; opened with
  /// zeros when the slice is the last of its sequence and has a prefix; undefined tensors when no
  /// gradient passes between slices (a slice that is its whole sequence).
  [[nodiscard]] KeysValues gradient(std::size_t layer, const Slice& slice);

  /// Whether the sequence has slices after this one, which leave gradients for its keys and values.
  [[nodiscard]] bool has_later(const Slice& slice) const { return !is_last(slice); }

  /// The slice has run backward; its sequence is freed in this layer when it was the first slice.
  void release(std::size_t layer, const Slice& slice);

  /// The slice has run forward and no backward comes; its sequence is freed in this layer when it
  /// was the last slice.
  void release_forward(std::size_t layer, const Slice& slice);

  [[nodiscard]] bool empty() const;

 private:
  struct Entry {
    KeysValues values;     ///< the sequence's, maybe among others'
    std::int64_t row = 0;  ///< its first there
    KeysValues gradient;
  };
  /// How many of the first slices share a tensor: 0 if the first is no whole sequence.
  [[nodiscard]] std::size_t sharing(std::span<const Slice> slices) const;
  void write_slice(std::size_t layer, const Slice& slice, const KeysValues& kv);
  [[nodiscard]] bool is_last(const Slice& slice) const;  ///< of its sequence
  [[nodiscard]] Entry& entry(std::size_t layer, SequenceId sequence);
  [[nodiscard]] RowShare share(SequenceId sequence) const;
  [[nodiscard]] bool holds(SequenceId sequence) const { return share(sequence).replicas > 0; }
  [[nodiscard]] std::int64_t tokens(SequenceId sequence) const;
  [[nodiscard]] KeysValues allocate_values(SequenceId sequence,
                                           const at::TensorOptions& options) const;
  [[nodiscard]] KeysValues allocate_gradient(SequenceId sequence, const at::Tensor& k_TGD) const;

  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  SequenceLengths lengths_;
  std::vector<RowShare> shares_;
  std::vector<PackId> freed_by_;
  std::vector<std::vector<Entry>> entries_;  ///< [layer][sequence]
};

}  // namespace slimpack
