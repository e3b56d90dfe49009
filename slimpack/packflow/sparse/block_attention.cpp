#include "slimpack/packflow/sparse/block_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/sparse/parallel_tasks.h"

namespace slimpack {
namespace {

/// The place of the run that is read in place: the longest, and of equal ones the first.
std::size_t longest(const std::vector<KeyRun>& runs) {
  return static_cast<std::size_t>(std::ranges::max_element(runs, {}, &KeyRun::keys) - runs.begin());
}

/// Rows of x_TD, which lie end to end: those of `runs`, one below the other. A CPU copies them run
/// by run; at::index_select would go row by row.
at::Tensor packed_rows(const at::Tensor& x_TD, std::span<const KeyRun> runs) {
  std::int64_t rows = 0;
  for (const KeyRun& run : runs) rows += run.keys();
  if (!x_TD.is_cpu()) {
    std::vector<std::int64_t> index;
    for (const KeyRun& run : runs)
      for (std::int64_t key = run.begin; key < run.end; ++key) index.push_back(key);
    return at::index_select(x_TD, 0, put_on(at::tensor(index, at::kLong), x_TD.device()));
  }
  at::Tensor out_TD = at::empty({rows, x_TD.size(1)}, x_TD.options());
  const auto row = static_cast<std::size_t>(x_TD.size(1)) * x_TD.element_size();
  const auto* const from = static_cast<const std::byte*>(x_TD.const_data_ptr());
  auto* to = static_cast<std::byte*>(out_TD.mutable_data_ptr());
  for (const KeyRun& run : runs) {
    const std::size_t bytes = static_cast<std::size_t>(run.keys()) * row;
    std::memcpy(to, from + static_cast<std::size_t>(run.begin) * row, bytes);
    to += bytes;
  }
  return out_TD;
}

std::vector<KeyRun> runs_of(const std::vector<std::int64_t>& columns) {
  std::vector<KeyRun> runs;
  for (const std::int64_t column : columns) runs.push_back({column, column + 1});
  return runs;
}

class Heads {
 public:
  Heads(const at::Tensor& q_TND, const KeysValues& kv, const QueryBlocks& queries,
        std::span<const std::optional<KeptKeys>> kept)
      : q_TND_(q_TND),
        kv_(kv),
        queries_(queries),
        kept_(kept),
        columns_(kept.size()),
        result_{at::empty(q_TND.sizes(), q_TND.options()),
                at::empty({q_TND.size(0), q_TND.size(1)},
                          q_TND.options().dtype(accumulate_type(q_TND)))} {}

  [[nodiscard]] AttentionResult run() {
    std::vector<std::int64_t> dense, sparse;
    for (std::int64_t n = 0; n < q_TND_.size(1); ++n) (kept(n) ? sparse : dense).push_back(n);
    for_each_task(std::ssize(sparse), [&](std::int64_t i) {
      const std::int64_t n = sparse[static_cast<std::size_t>(i)];
      if (!kept(n)->columns.empty())
        columns_[static_cast<std::size_t>(n)] = packed(keys(n), runs_of(kept(n)->columns));
    });
    // Dense heads take longest and go first.
    struct Block {
      std::int64_t head, block;
    };
    std::vector<Block> blocks;
    for (const std::int64_t n : sparse)
      for (std::int64_t b = 0; b < std::ssize(kept(n)->blocks); ++b) blocks.push_back({n, b});
    for_each_task(std::ssize(dense) + std::ssize(blocks), [&](std::int64_t task) {
      if (task < std::ssize(dense)) return attend_to_all(dense[static_cast<std::size_t>(task)]);
      const Block& next = blocks[static_cast<std::size_t>(task - std::ssize(dense))];
      attend_to_kept(next.head, std::ssize(kept(next.head)->blocks) - 1 - next.block);
    });
    return result_;
  }

 private:
  [[nodiscard]] const std::optional<KeptKeys>& kept(std::int64_t n) const {
    return kept_[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] KeysValues keys(std::int64_t n) const { return keys_of_head(q_TND_, kv_, n); }

  /// Rows of head n, in the slice and in the sequence.
  [[nodiscard]] at::Tensor part(const at::Tensor& x_TN, std::int64_t n, const KeyRun& rows) const {
    return x_TN.narrow(0, rows.begin - queries_.prefix(), rows.keys()).narrow(1, n, 1);
  }
  void store(const AttentionResult& found, std::int64_t n, const KeyRun& rows) {
    part(result_.out_TND, n, rows).copy_(found.out_TND);
    part(result_.lse_TN, n, rows).copy_(found.lse_TN);
  }

  void attend_to_all(std::int64_t n) {
    const KeyRun rows{queries_.prefix(), queries_.keys()};
    store(attention_forward(part(q_TND_, n, rows), keys(n), Tokens(rows.begin)), n, rows);
  }

  void attend_to_kept(std::int64_t n, std::int64_t b) {
    const BlockKeys& block = kept(n)->blocks[static_cast<std::size_t>(b)];
    const KeyRun rows = queries_.in_blocks_of(kept(n)->block).queries(b);
    const at::Tensor q_T1D = part(q_TND_, n, rows);
    AttentionResult found = attend(q_T1D, keys(n).narrow(rows.begin, rows.keys()), Mask::kCausal);
    const auto add = [&](const KeysValues& some) {
      found = merged(std::move(found), attend(q_T1D, some, Mask::kNone));
    };
    std::vector<KeyRun> others = block.runs;
    if (!others.empty()) {
      const auto largest = others.begin() + static_cast<std::ptrdiff_t>(longest(others));
      add(keys(n).narrow(largest->begin, largest->keys()));
      others.erase(largest);
    }
    SLIMPACK_CHECK(block.columns == 0 || others.empty());
    if (block.columns > 0) add(columns_[static_cast<std::size_t>(n)].narrow(0, block.columns));
    if (!others.empty()) add(packed(keys(n), others));
    store(found, n, rows);
  }

  const at::Tensor& q_TND_;
  const KeysValues& kv_;
  const QueryBlocks& queries_;
  std::span<const std::optional<KeptKeys>> kept_;
  std::vector<KeysValues> columns_;  ///< of each head, packed
  AttentionResult result_;
};

}  // namespace

KeysValues keys_of_head(const at::Tensor& q_TND, const KeysValues& kv, std::int64_t head) {
  const std::int64_t group = head / (q_TND.size(1) / kv.k.size(1));
  return {kv.k.narrow(1, group, 1), kv.v.narrow(1, group, 1)};
}

KeysValues heads_end_to_end(const KeysValues& kv) {
  const auto moved = [](const at::Tensor& x_TGD) {
    return x_TGD.transpose(0, 1).contiguous().transpose(0, 1);
  };
  return {moved(kv.k), moved(kv.v)};
}

KeysValues packed(const KeysValues& kv, std::span<const KeyRun> runs) {
  const auto rows = [&](const at::Tensor& x_TGD) {
    const at::Tensor x_TD = x_TGD.squeeze(1);
    SLIMPACK_CHECK(x_TD.is_contiguous());
    return packed_rows(x_TD, runs).unsqueeze(1);
  };
  return {rows(kv.k), rows(kv.v)};
}

BlockCalls calls_of(const BlockKeys& block) {
  BlockCalls calls;
  if (!block.runs.empty()) {
    ++calls.calls;
    calls.packed_keys = block.keys() - block.columns - block.runs[longest(block.runs)].keys();
  }
  if (block.columns > 0 || calls.packed_keys > 0) ++calls.calls;
  return calls;
}

AttentionResult block_attention(const at::Tensor& q_TND, const KeysValues& kv,
                                const QueryBlocks& queries,
                                std::span<const std::optional<KeptKeys>> kept) {
  return Heads(q_TND, kv, queries, kept).run();
}

}  // namespace slimpack
