#include "slimpack/packflow/decode/row_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "slimpack/packflow/decode/exp_lanes.h"
#include "slimpack/packflow/decode/simd.h"

namespace slimpack {
namespace {

constexpr std::int64_t kBlockKeys = 64;
/// Keys of one task. Fixed, so that sums do not depend on the number of threads.
constexpr std::int64_t kTaskKeys = 1024;
constexpr std::int64_t kMaxHeadDim = 256;

/// Sixteen queries of one key head, and what they have seen.
template <class T>
struct QueryLanes {
  std::vector<T> q_DL;    ///< scaled
  std::vector<T> out_DL;  ///< Σ e^(score − highest) · value
  Lanes<T> highest = Lanes<T>{} - std::numeric_limits<T>::infinity();
  Lanes<T> sum = {};

  [[nodiscard]] Lanes<T>* q() { return reinterpret_cast<Lanes<T>*>(q_DL.data()); }
  [[nodiscard]] Lanes<T>* out() { return reinterpret_cast<Lanes<T>*>(out_DL.data()); }
  [[nodiscard]] std::int64_t head_dim() const {
    return static_cast<std::int64_t>(out_DL.size()) / kLanes;
  }
};

/// Keys [begin, end) of one head and which of the lanes' queries see them.
template <class Input>
struct KeyRange {
  const Input* k;
  const Input* v;
  std::int64_t head_dim;
  std::int64_t begin, end;
  std::int64_t before;  ///< keys that all queries see
  const OwnKeys* own;
  const std::int64_t* row_of_lane;
};

/// As numbers that sums are made of: the keys themselves, or a copy.
template <class Input>
[[gnu::always_inline]] inline const Sum<Input>* widened(const Input* x, std::int64_t count,
                                                        Sum<Input>* copy) {
  if constexpr (std::is_same_v<Input, Sum<Input>>) {
    return x;
  } else {
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(x);
    auto* const to = reinterpret_cast<std::uint32_t*>(copy);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint32_t>(bits[i]) << 16U;
    return copy;
  }
}

/// scores[key] = q · key for each lane. Four keys at once, so that a query is loaded for four.
template <class T>
[[gnu::always_inline]] inline void score_keys(const Lanes<T>* q, const T* keys,
                                              std::int64_t head_dim, std::int64_t count,
                                              Lanes<T>* scores) {
  std::int64_t key = 0;
  for (; key + 4 <= count; key += 4) {
    const T* const k = keys + key * head_dim;
    Lanes<T> s0 = {}, s1 = {}, s2 = {}, s3 = {};
    for (std::int64_t d = 0; d < head_dim; ++d) {
      s0 += q[d] * k[d];
      s1 += q[d] * k[head_dim + d];
      s2 += q[d] * k[2 * head_dim + d];
      s3 += q[d] * k[3 * head_dim + d];
    }
    scores[key] = s0, scores[key + 1] = s1, scores[key + 2] = s2, scores[key + 3] = s3;
  }
  for (; key < count; ++key) {
    Lanes<T> s = {};
    for (std::int64_t d = 0; d < head_dim; ++d) s += q[d] * keys[key * head_dim + d];
    scores[key] = s;
  }
}

/// out[d] += Σ weight · value[d]. Eight dimensions at once, so that their sums stay in registers.
template <class T>
[[gnu::always_inline]] inline void add_values(const Lanes<T>* weights, const T* values,
                                              std::int64_t head_dim, std::int64_t count,
                                              Lanes<T>* out) {
  constexpr std::int64_t kAtOnce = 8;
  std::int64_t d = 0;
  for (; d + kAtOnce <= head_dim; d += kAtOnce) {
    Lanes<T> sums[kAtOnce];
    for (std::int64_t i = 0; i < kAtOnce; ++i) sums[i] = out[d + i];
    for (std::int64_t key = 0; key < count; ++key)
      for (std::int64_t i = 0; i < kAtOnce; ++i)
        sums[i] += weights[key] * values[key * head_dim + d + i];
    for (std::int64_t i = 0; i < kAtOnce; ++i) out[d + i] = sums[i];
  }
  for (; d < head_dim; ++d)
    for (std::int64_t key = 0; key < count; ++key)
      out[d] += weights[key] * values[key * head_dim + d];
}

template <class Input>
[[gnu::always_inline]] inline void mask_own(const KeyRange<Input>& range, std::int64_t begin,
                                            std::int64_t count, Lanes<Sum<Input>>* scores) {
  for (std::int64_t key = std::max(begin, range.before); key < begin + count; ++key)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      if (!range.own->sees(range.row_of_lane[lane], key - range.before))
        scores[key - begin][lane] = -std::numeric_limits<Sum<Input>>::infinity();
}

/// Scores to weights e^(score − highest); what was seen before is scaled to the new highest.
template <class T>
[[gnu::always_inline]] inline void weigh(QueryLanes<T>& lanes, std::int64_t count,
                                         Lanes<T>* scores) {
  Lanes<T> highest = lanes.highest;
  for (std::int64_t key = 0; key < count; ++key)
    highest = scores[key] > highest ? scores[key] : highest;
  // A query that has seen no key yet would be ∞ − ∞.
  const Lanes<T> base = highest > -std::numeric_limits<T>::max() ? highest : Lanes<T>{};
  Lanes<T> scale = lanes.highest - base;
  exp_lanes(scale);
  for (std::int64_t d = 0; d < lanes.head_dim(); ++d) lanes.out()[d] *= scale;
  lanes.sum *= scale;
  for (std::int64_t key = 0; key < count; ++key) {
    scores[key] -= base;
    exp_lanes(scores[key]);
    lanes.sum += scores[key];
  }
  lanes.highest = highest;
}

template <class Input>
struct AttendRange {
  [[gnu::always_inline]] void operator()(QueryLanes<Sum<Input>>& lanes,
                                         const KeyRange<Input>& range) const {
    using T = Sum<Input>;
    std::array<T, kBlockKeys * kMaxHeadDim> copy;
    Lanes<T> scores[kBlockKeys];
    const std::int64_t dim = range.head_dim;
    for (std::int64_t key = range.begin; key < range.end; key += kBlockKeys) {
      const std::int64_t count = std::min(kBlockKeys, range.end - key);
      const T* const k = widened<Input>(range.k + key * dim, count * dim, copy.data());
      score_keys<T>(lanes.q(), k, dim, count, scores);
      mask_own<Input>(range, key, count, scores);
      weigh<T>(lanes, count, scores);
      const T* const v = widened<Input>(range.v + key * dim, count * dim, copy.data());
      add_values<T>(scores, v, dim, count, lanes.out());
    }
  }
};

/// The queries of one call, by lanes: key head, then row, then query head.
class QueryOrder {
 public:
  QueryOrder(std::int64_t rows, std::int64_t query_heads, std::int64_t key_heads)
      : sharing_(query_heads / key_heads), queries_(rows * sharing_) {}

  [[nodiscard]] std::int64_t blocks() const { return padded_to(queries_, kLanes) / kLanes; }
  [[nodiscard]] std::int64_t sharing() const { return sharing_; }
  /// Of a lane in a block; the last block's surplus lanes repeat the last query.
  [[nodiscard]] std::int64_t query(std::int64_t block, std::int64_t lane) const {
    return std::min(block * kLanes + lane, queries_ - 1);
  }

 private:
  std::int64_t sharing_, queries_;
};

/// Puts queries of a key head into lanes, scaled by 1/√D.
template <class T>
void load_queries(RowsView<const T> q, std::int64_t head, std::int64_t head_dim,
                  const QueryOrder& order, std::int64_t block, QueryLanes<T>& lanes,
                  std::array<std::int64_t, kLanes>& row_of_lane) {
  const auto elements = static_cast<std::size_t>(head_dim * kLanes);
  lanes.q_DL.resize(elements);
  lanes.out_DL.assign(elements, 0);
  const T scale = 1 / std::sqrt(static_cast<T>(head_dim));
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const std::int64_t query = order.query(block, lane);
    const std::int64_t row = query / order.sharing();
    const T* const from =
        q.row(row) + (head * order.sharing() + query % order.sharing()) * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d) lanes.q()[d][lane] = from[d] * scale;
    row_of_lane[static_cast<std::size_t>(lane)] = row;
  }
}

/// Adds what other keys gave the same queries.
template <class T>
void merge(QueryLanes<T>& into, QueryLanes<T>& part) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const T highest = std::max(into.highest[lane], part.highest[lane]);
    const T a = std::exp(into.highest[lane] - highest), b = std::exp(part.highest[lane] - highest);
    into.sum[lane] = into.sum[lane] * a + part.sum[lane] * b;
    for (std::int64_t d = 0; d < into.head_dim(); ++d)
      into.out()[d][lane] = into.out()[d][lane] * a + part.out()[d][lane] * b;
    into.highest[lane] = highest;
  }
}

template <class Input>
void store(QueryLanes<Sum<Input>>& lanes, std::int64_t head, std::int64_t head_dim,
           const QueryOrder& order, std::int64_t block, RowsView<Input> out) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const std::int64_t query = order.query(block, lane);
    if (lane > 0 && query == order.query(block, lane - 1)) break;  // surplus
    Input* const to = out.row(query / order.sharing()) +
                      (head * order.sharing() + query % order.sharing()) * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d)
      to[d] = static_cast<Input>(lanes.out()[d][lane] / lanes.sum[lane]);
  }
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
}

template <class Input>
void attend_rows(RowsView<const Sum<Input>> q, std::int64_t query_heads,
                 const CachedHeads<Input>& cached, std::int64_t before, const OwnKeys& own,
                 RowsView<Input> out) {
  const QueryOrder order(q.rows, query_heads, cached.heads);
  const std::int64_t keys = before + own.keys();
  const std::int64_t parts = padded_to(keys, kTaskKeys) / kTaskKeys;
  const std::int64_t groups = cached.heads * order.blocks();
  std::vector<QueryLanes<Sum<Input>>> seen(static_cast<std::size_t>(groups * parts));
  at::parallel_for(0, groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t group = task / parts, part = task % parts;
      const std::int64_t head = group / order.blocks(), block = group % order.blocks();
      QueryLanes<Sum<Input>>& lanes = seen[static_cast<std::size_t>(task)];
      std::array<std::int64_t, kLanes> row_of_lane{};
      load_queries(q, head, cached.head_dim, order, block, lanes, row_of_lane);
      const std::int64_t from = head * cached.capacity * cached.head_dim;
      const KeyRange<Input> range{cached.k + from,
                                  cached.v + from,
                                  cached.head_dim,
                                  part * kTaskKeys,
                                  std::min(keys, (part + 1) * kTaskKeys),
                                  before,
                                  &own,
                                  row_of_lane.data()};
      with_widest_simd(AttendRange<Input>{}, lanes, range);
    }
  });
  for (std::int64_t group = 0; group < groups; ++group) {
    auto& whole = seen[static_cast<std::size_t>(group * parts)];
    for (std::int64_t part = 1; part < parts; ++part)
      merge(whole, seen[static_cast<std::size_t>(group * parts + part)]);
    store<Input>(whole, group / order.blocks(), cached.head_dim, order, group % order.blocks(),
                 out);
  }
}
template void attend_rows(RowsView<const double>, std::int64_t, const CachedHeads<double>&,
                          std::int64_t, const OwnKeys&, RowsView<double>);
template void attend_rows(RowsView<const float>, std::int64_t, const CachedHeads<float>&,
                          std::int64_t, const OwnKeys&, RowsView<float>);
template void attend_rows(RowsView<const float>, std::int64_t, const CachedHeads<c10::BFloat16>&,
                          std::int64_t, const OwnKeys&, RowsView<c10::BFloat16>);

}  // namespace slimpack
