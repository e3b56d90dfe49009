#include "slimpack/packflow/decode/row_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "slimpack/packflow/decode/amx_product.h"
#include "slimpack/packflow/decode/query_block.h"

namespace slimpack {
namespace {

/// Keys of one task. Fixed, so that sums do not depend on the number of threads.
constexpr std::int64_t kTaskKeys = 1024;
/// Blocks of queries of one task, which share the converted keys.
constexpr std::int64_t kTaskBlocks = 4;

/// The queries of one call that share a key head: by row, then by query head.
class QueryOrder {
 public:
  QueryOrder(std::int64_t rows, std::int64_t query_heads, std::int64_t key_heads)
      : sharing_(query_heads / key_heads), queries_(rows * sharing_) {}

  [[nodiscard]] std::int64_t blocks() const { return padded_to(queries_, kLanes) / kLanes; }
  [[nodiscard]] std::int64_t lanes(std::int64_t block) const {
    return std::min(kLanes, queries_ - block * kLanes);
  }
  [[nodiscard]] std::int64_t row(std::int64_t block, std::int64_t lane) const {
    return query(block, lane) / sharing_;
  }
  /// The query head of a lane, beside a key head.
  [[nodiscard]] std::int64_t head(std::int64_t key_head, std::int64_t block,
                                  std::int64_t lane) const {
    return key_head * sharing_ + query(block, lane) % sharing_;
  }

 private:
  /// The last block's surplus lanes repeat the last query.
  [[nodiscard]] std::int64_t query(std::int64_t block, std::int64_t lane) const {
    return std::min(block * kLanes + lane, queries_ - 1);
  }

  std::int64_t sharing_, queries_;
};

template <class T>
void load_queries(RowsView<const T> q, std::int64_t key_head, std::int64_t head_dim,
                  const QueryOrder& order, std::int64_t index, QueryBlock<T>& block) {
  const auto elements = static_cast<std::size_t>(head_dim * kLanes);
  block.q_LD.resize(elements);
  block.out_LD.assign(elements, 0);
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const std::int64_t row = order.row(index, lane);
    block.row[static_cast<std::size_t>(lane)] = row;
    std::copy_n(q.row(row) + order.head(key_head, index, lane) * head_dim, head_dim,
                block.q_LD.data() + lane * head_dim);
  }
}

/// Adds what other keys gave the same queries.
template <class T>
void merge(QueryBlock<T>& into, const QueryBlock<T>& part, std::int64_t head_dim) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const T highest = std::max(into.highest[lane], part.highest[lane]);
    const T a = std::exp(into.highest[lane] - highest), b = std::exp(part.highest[lane] - highest);
    into.sum[lane] = into.sum[lane] * a + part.sum[lane] * b;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const auto at = static_cast<std::size_t>(lane * head_dim + d);
      into.out_LD[at] = into.out_LD[at] * a + part.out_LD[at] * b;
    }
    into.highest[lane] = highest;
  }
}

template <class Input>
void store(const QueryBlock<Sum<Input>>& block, std::int64_t key_head, std::int64_t head_dim,
           const QueryOrder& order, std::int64_t index, RowsView<Input> out) {
  for (std::int64_t lane = 0; lane < order.lanes(index); ++lane) {
    Input* const to =
        out.row(order.row(index, lane)) + order.head(key_head, index, lane) * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d)
      to[d] = static_cast<Input>(block.out_LD[static_cast<std::size_t>(lane * head_dim + d)] /
                                 block.sum[lane]);
  }
}

template <class Input>
void attend(std::span<QueryBlock<Sum<Input>>> blocks, const KeyRange<Input>& range) {
  if constexpr (std::is_same_v<Input, c10::BFloat16>) {
    if (has_amx() && range.head_dim % kAmxDimensions == 0) return attend_with_amx(blocks, range);
  }
  attend_with_simd<Input>(blocks, range);
}

}  // namespace

OwnKeys::OwnKeys(std::span<const std::int32_t> parents, std::int64_t rows)
    : rows_(rows),
      keys_(static_cast<std::int64_t>(parents.size())),
      ancestors_(static_cast<std::size_t>(rows * keys_), false) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t key = keys_ - rows + row; key >= 0;
         key = parents[static_cast<std::size_t>(key)])
      ancestors_[static_cast<std::size_t>(row * keys_ + key)] = true;
  for (const std::int32_t parent : parents)
    depths_.push_back(parent < 0 ? 0 : depths_[static_cast<std::size_t>(parent)] + 1);
  const auto [least, most] = std::minmax_element(depths_.end() - rows, depths_.end());
  least_depth_ = *least;
  most_depth_ = *most;
}

// 1. Keys that the window hides from all rows are passed over.
// 2. A task takes some blocks of queries of a key head and a part of the keys.
// 3. Parts of the same queries are merged and stored.
template <class Input>
void attend_rows(RowsView<const Sum<Input>> q, std::int64_t query_heads,
                 const CachedHeads<Input>& cached, std::int64_t before, const OwnKeys& own,
                 RowsView<Input> out) {
  const QueryOrder order(q.rows, query_heads, cached.heads);
  const std::int64_t dim = cached.head_dim, keys = before + own.keys();
  // Rows see the keys before their own from here on, and from `clear` on all of these.
  const auto first_seen = [&](std::int64_t depth) {
    const std::int64_t first = cached.window == 0 ? 0 : before + depth - cached.window + 1;
    return std::clamp<std::int64_t>(first, 0, before);
  };
  const std::int64_t start = first_seen(own.least_depth()), clear = first_seen(own.most_depth());
  const std::int64_t parts = padded_to(keys - start, kTaskKeys) / kTaskKeys;
  const std::int64_t groups = padded_to(order.blocks(), kTaskBlocks) / kTaskBlocks;
  std::vector<QueryBlock<Sum<Input>>> seen(
      static_cast<std::size_t>(cached.heads * parts * order.blocks()));
  const auto blocks_of = [&](std::int64_t head, std::int64_t part) {
    return std::span(seen).subspan(static_cast<std::size_t>((head * parts + part) * order.blocks()),
                                   static_cast<std::size_t>(order.blocks()));
  };
  at::parallel_for(0, cached.heads * parts * groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t head = task / (parts * groups), part = task / groups % parts;
      const std::int64_t first = task % groups * kTaskBlocks;
      const auto blocks =
          blocks_of(head, part)
              .subspan(static_cast<std::size_t>(first),
                       static_cast<std::size_t>(std::min(kTaskBlocks, order.blocks() - first)));
      for (std::size_t b = 0; b < blocks.size(); ++b)
        load_queries(q, head, dim, order, first + static_cast<std::int64_t>(b), blocks[b]);
      const std::int64_t from = head * cached.capacity * dim;
      attend<Input>(blocks, {cached.k + from, cached.v + from, dim, start + part * kTaskKeys,
                             std::min(keys, start + (part + 1) * kTaskKeys), before, clear,
                             cached.window, &own});
    }
  });
  for (std::int64_t head = 0; head < cached.heads; ++head) {
    const auto whole = blocks_of(head, 0);
    for (std::int64_t b = 0; b < order.blocks(); ++b) {
      auto& block = whole[static_cast<std::size_t>(b)];
      for (std::int64_t part = 1; part < parts; ++part)
        merge(block, blocks_of(head, part)[static_cast<std::size_t>(b)], dim);
      store<Input>(block, head, dim, order, b, out);
    }
  }
}
template void attend_rows(RowsView<const double>, std::int64_t, const CachedHeads<double>&,
                          std::int64_t, const OwnKeys&, RowsView<double>);
template void attend_rows(RowsView<const float>, std::int64_t, const CachedHeads<float>&,
                          std::int64_t, const OwnKeys&, RowsView<float>);
template void attend_rows(RowsView<const float>, std::int64_t, const CachedHeads<c10::BFloat16>&,
                          std::int64_t, const OwnKeys&, RowsView<c10::BFloat16>);

}  // namespace slimpack
