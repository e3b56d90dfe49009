#include "slimpack/packflow/sparse/sampled_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/sparse/kept_keys.h"

namespace slimpack {
namespace {

struct Entry {
  double value;
  std::int64_t index;
};

/// The largest first, of equal ones the first: a total order, so that a choice is no accident.
bool larger(const Entry& a, const Entry& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

std::vector<Entry> entries_of(const std::vector<double>& values) {
  std::vector<Entry> entries;
  entries.reserve(values.size());
  for (const double value : values) entries.push_back({value, std::ssize(entries)});
  return entries;
}

/// Indices of the first `count`, ascending.
std::vector<std::int64_t> first_ones(const std::vector<Entry>& entries, std::ptrdiff_t count) {
  std::vector<std::int64_t> indices;
  for (std::ptrdiff_t i = 0; i < count; ++i)
    indices.push_back(entries[static_cast<std::size_t>(i)].index);
  std::ranges::sort(indices);
  return indices;
}

/// Fills what row r has of keys later than position(r) − reach.
void fill_later_keys(at::Tensor& x_RL, std::int64_t reach, const RowSample& sample, double value) {
  // Rows see at least the keys up to the first row's.
  const std::int64_t begin = std::max<std::int64_t>(0, sample.first - reach + 1);
  const std::int64_t keys = x_RL.size(1) - begin;
  if (keys <= 0) return;
  const auto options = x_RL.options().dtype(at::kLong);
  const at::Tensor latest_R1 =
      at::arange(sample.rows, options).mul_(sample.stride).add_(sample.first - reach).unsqueeze(1);
  const at::Tensor key_1L = at::arange(begin, begin + keys, options).unsqueeze(0);
  x_RL.narrow(1, begin, keys).masked_fill_(key_1L.gt(latest_R1), value);
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

double sampled_pairs(const std::vector<RowSample>& samples) {
  double pairs = 0;
  for (const RowSample& sample : samples)
    pairs += static_cast<double>(sample.rows) * static_cast<double>(sample.last() + 1);
  return pairs;
}

at::Tensor causal_softmax(const at::Tensor& q_RD, const at::Tensor& k_LD, double scale,
                          const RowSample& sample) {
  at::Tensor scores_RL = at::mm(at::mul(q_RD, scale), k_LD.narrow(0, 0, sample.last() + 1).t())
                             .to(accumulate_type(q_RD));
  fill_later_keys(scores_RL, 0, sample, -std::numeric_limits<double>::infinity());
  return at::softmax(scores_RL, 1);
}

at::Tensor sampled_softmax(const at::Tensor& q_TD, const at::Tensor& k_LD, std::int64_t prefix,
                           const RowSample& sample) {
  return causal_softmax(
      q_TD.slice(0, sample.first - prefix, sample.last() - prefix + 1, sample.stride), k_LD,
      1.0 / std::sqrt(static_cast<double>(q_TD.size(1))), sample);
}

void drop_later_keys(at::Tensor& x_RL, std::int64_t reach, const RowSample& sample) {
  fill_later_keys(x_RL, reach, sample, 0);
}

std::vector<double> as_doubles(const at::Tensor& x) {
  const at::Tensor host = x.to(at::kCPU, at::kDouble).contiguous();
  const double* const values = host.const_data_ptr<double>();
  return {values, values + host.numel()};
}

std::vector<double> block_sums(const at::Tensor& x_L) {
  const std::int64_t missing = (kSparseBlock - x_L.size(0) % kSparseBlock) % kSparseBlock;
  return as_doubles(at::constant_pad_nd(x_L, {0, missing}, 0).view({-1, kSparseBlock}).sum({1}));
}

at::Tensor distance_sums(const at::Tensor& x_RL) {
  const std::int64_t rows = x_RL.size(0), keys = x_RL.size(1);
  // Padded by R − 1 in front, entry (r, t + r) is key t + r − (R − 1): with t = L − 1 − d as above.
  const at::Tensor padded = at::constant_pad_nd(x_RL, {rows - 1, 0}, 0);
  return padded.as_strided({rows, keys}, {padded.stride(0) + 1, 1}).sum({0}).flip({0});
}

std::vector<std::int64_t> fewest_that_sum_to(const std::vector<double>& values, double sum) {
  // Halves instead of sorting: the number of entries looked at adds up to about twice their count.
  constexpr std::ptrdiff_t kSorted = 64;
  std::vector<Entry> entries = entries_of(values);
  auto begin = entries.begin(), end = entries.end();
  double reached = 0;
  while (end - begin > kSorted) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, larger);
    double half = 0;
    for (auto entry = begin; entry != middle; ++entry) half += entry->value;
    if (reached + half >= sum) {
      end = middle;
    } else {
      reached += half;
      begin = middle;
    }
  }
  std::sort(begin, end, larger);
  while (reached < sum && begin != end) reached += (begin++)->value;
  return first_ones(entries, begin - entries.begin());
}

std::vector<std::int64_t> fewest_that_reach(const std::vector<double>& values, double share) {
  // Sums round: with a share of 1 the last entries might be left out.
  const double target =
      share < 1 ? share * sum_of(values) : std::numeric_limits<double>::infinity();
  return fewest_that_sum_to(values, target);
}

std::vector<std::int64_t> largest_entries(const std::vector<double>& values, std::int64_t count) {
  std::vector<Entry> entries = entries_of(values);
  const auto taken = std::min(std::ssize(entries), count);
  std::nth_element(entries.begin(), entries.begin() + (taken > 0 ? taken - 1 : 0), entries.end(),
                   larger);
  return first_ones(entries, taken);
}

}  // namespace slimpack
