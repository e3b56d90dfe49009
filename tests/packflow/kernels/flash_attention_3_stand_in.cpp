// Stands in for the package of FlashAttention-3 on the pretended device: its operators with the
// arguments of hopper/flash_api.cpp that they are given here, computed by the engine's composed
// attention.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <utility>

#include "slimpack/packflow/kernels/libtorch_attention.h"
#include "tests/packflow/support/pretended_device.h"

namespace slimpack::testing {
namespace {

using Bounds = std::optional<at::Tensor>;

std::vector<std::int64_t> ends_of(const Bounds& bounds, std::int64_t rows) {
  if (!bounds) return {0, rows};
  const at::Tensor ends = seen_by_cpu(*bounds).to(at::kLong);
  return {ends.const_data_ptr<std::int64_t>(), ends.const_data_ptr<std::int64_t>() + ends.numel()};
}

/// One block is a batch of one.
at::Tensor rows_of(const at::Tensor& x) {
  const at::Tensor here = seen_by_cpu(x);
  return here.dim() == 4 ? here.squeeze(0) : here;
}

at::Tensor put_there(const at::Tensor& x, bool block) {
  return (block ? x.unsqueeze(0) : x).contiguous().to(kPretended);
}

/// Calls visit(first query, queries, first key, keys) of each sequence.
template <class Visit>
void for_each_sequence(const Bounds& query_bounds, const Bounds& key_bounds, std::int64_t queries,
                       std::int64_t keys, Visit visit) {
  const auto q = ends_of(query_bounds, queries), k = ends_of(key_bounds, keys);
  for (std::size_t s = 0; s + 1 < q.size(); ++s)
    visit(q[s], q[s + 1] - q[s], k[s], k[s + 1] - k[s]);
}

/// Below 0: no window.
Mask mask_of(bool is_causal, std::int64_t window_left, std::int64_t window_right) {
  TORCH_CHECK(window_right == (window_left < 0 ? -1 : 0), "no query sees keys after its own");
  return {is_causal ? Mask::kCausalEnd : Mask::kNone, window_left + 1};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k, std::optional<std::int64_t>, std::optional<std::int64_t>,
    std::optional<double>, bool is_causal, std::int64_t window_size_left,
    std::int64_t window_size_right, std::int64_t num_splits) {
  TORCH_CHECK(num_splits == 0, "defaults");
  const KeysValues kv{rows_of(k), rows_of(v)};
  const at::Tensor q_TND = rows_of(q);
  std::vector<at::Tensor> out, lse;
  for_each_sequence(cu_seqlens_q, cu_seqlens_k, q_TND.size(0), kv.k.size(0),
                    [&](auto row, auto rows, auto key, auto keys) {
                      AttentionResult one =
                          composed_attend(q_TND.narrow(0, row, rows), kv.narrow(key, keys),
                                          mask_of(is_causal, window_size_left, window_size_right));
                      out.push_back(std::move(one.out_TND));
                      lse.push_back(std::move(one.lse_TN));
                    });
  const bool block = q.dim() == 4;
  const at::Tensor none = at::empty({0}, q.options());
  return {put_there(at::cat(out), block), put_there(at::cat(lse).transpose(0, 1), block), none,
          none};
}

void backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
              const at::Tensor& out, const at::Tensor& softmax_lse, at::Tensor dq, at::Tensor dk,
              at::Tensor dv, const Bounds& cu_seqlens_q, const Bounds& cu_seqlens_k,
              std::optional<std::int64_t>, std::optional<std::int64_t>, std::optional<double>,
              bool is_causal, std::int64_t window_size_left, std::int64_t window_size_right, bool) {
  TORCH_CHECK(softmax_lse.is_contiguous());
  const KeysValues kv{rows_of(k), rows_of(v)};
  const QueryRows rows{
      rows_of(dout), rows_of(q), rows_of(out),
      (q.dim() == 4 ? seen_by_cpu(softmax_lse).squeeze(0) : seen_by_cpu(softmax_lse))
          .transpose(0, 1)};
  const Mask mask = mask_of(is_causal, window_size_left, window_size_right);
  const at::Tensor dq_TND = rows_of(dq), dk_TGD = rows_of(dk), dv_TGD = rows_of(dv);
  for_each_sequence(cu_seqlens_q, cu_seqlens_k, rows.q_TND.size(0), kv.k.size(0),
                    [&](auto row, auto count, auto key, auto keys) {
                      const AttentionGradients one = composed_attend_backward(
                          rows.narrow(row, count), kv.narrow(key, keys), mask);
                      dq_TND.narrow(0, row, count).copy_(one.dq_TND);
                      dk_TGD.narrow(0, key, keys).copy_(one.dk_TGD);
                      dv_TGD.narrow(0, key, keys).copy_(one.dv_TGD);
                    });
}

TORCH_LIBRARY(flash_attn_3, m) {
  m.def(
      "fwd(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens_q = None, Tensor? cu_seqlens_k = None, "
      "int? max_seqlen_q = None, int? max_seqlen_k = None, float? softmax_scale = None, "
      "bool is_causal = False, int window_size_left = -1, int window_size_right = -1, int "
      "num_splits = 0) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "bwd(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, "
      "Tensor(a!) dq, Tensor(b!) dk, Tensor(c!) dv, Tensor? cu_seqlens_q = None, "
      "Tensor? cu_seqlens_k = None, int? max_seqlen_q = None, int? max_seqlen_k = None, "
      "float? softmax_scale = None, bool is_causal = False, int window_size_left = -1, "
      "int window_size_right = -1, bool deterministic = False) -> ()");
}
TORCH_LIBRARY_IMPL(flash_attn_3, PrivateUse1, m) {
  m.impl("fwd", forward);
  m.impl("bwd", backward);
}

}  // namespace
}  // namespace slimpack::testing
