#include "slimpack/packflow/language/sparse_prefill.h"

#include <algorithm>
#include <variant>

#include "slimpack/base/error.h"
#include "slimpack/packflow/sparse/sparse_costs.h"

namespace slimpack {

SparseMethod sparse_method(std::string_view name) {
  if (name == "sample-attention") return SampledBlocks{};
  if (name == "sample-attention-v1") return SampledColumns{};
  if (name == "flex-prefill") return FlexPrefill{};
  if (name == "x-attention") return XAttention{};
  invalid_input(
      "'{}' is no method of sparse attention; give sample-attention, sample-attention-v1, "
      "flex-prefill or x-attention",
      name);
}

SparsePrefill::SparsePrefill(const SparseMethod& method, std::vector<std::int64_t> measured_heads)
    : method_(method), attention_{method, std::nullopt, std::move(measured_heads)} {
  check_sparse_method(method);
}

void SparsePrefill::begin_slice(bool last) {
  attention_.method = method_;
  if (auto* const columns = std::get_if<SampledColumns>(&attention_.method);
      columns != nullptr && !last)
    columns->dense_rows = 0;
}

at::Tensor SparsePrefill::attend(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix) {
  if (!attention_.costs) attention_.costs = measured_sparse_costs(q_TND, kv);
  SparseReport report;
  at::Tensor out_TND = sparse_attention_forward(q_TND, kv, prefix, attention_, &report).out_TND;
  for (const SparseHeadReport& head : report.heads) {
    ++figures_.heads;
    figures_.dense_heads += head.dense ? 1 : 0;
    figures_.computed_pairs += head.pairs;
    figures_.dense_pairs += report.dense_pairs;
    if (!head.kept) continue;
    ++figures_.measured;
    figures_.least_kept = std::min(figures_.least_kept, head.kept->least);
    figures_.sum_of_means += head.kept->mean;
  }
  return out_TND;
}

}  // namespace slimpack
