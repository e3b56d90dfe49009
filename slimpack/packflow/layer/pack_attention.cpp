#include "slimpack/packflow/layer/pack_attention.h"

#include <ATen/ops/empty.h>

#include <span>
#include <utility>
#include <vector>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/layer/context_attention.h"
#include "slimpack/packflow/layer/layer_parts.h"

namespace slimpack {
namespace {

/// Slices that one call of the kernel takes.
struct Run {
  std::span<const Slice> slices;
  std::int64_t row = 0;   ///< the first, in the MicroPack
  std::int64_t rows = 0;  ///< of all
  Lengths lengths;        ///< rows by slice
};

/// Neighbours without a prefix run together if the kernel takes several sequences; else each slice
/// runs by itself.
std::vector<Run> runs_of(const LayerContext& c, const at::Tensor& q_TND) {
  const bool together = takes_several_sequences(q_TND);
  std::vector<Run> runs;
  std::int64_t row = 0;
  for (const Slice& slice : c.pack.slices) {
    const std::int64_t rows = c.share.rows(slice).count();
    const bool joins = together && !runs.empty() && slice.begin == Tokens(0) &&
                       runs.back().slices.back().begin == Tokens(0);
    if (!joins) runs.push_back({{&slice, 0}, row, 0, {}});
    Run& run = runs.back();
    run.slices = {run.slices.data(), run.slices.size() + 1};
    run.rows += rows;
    run.lengths.push_back(rows);
    row += rows;
  }
  return runs;
}

/// Of the run's sequences up to its slices' ends, one below the other.
KeysValues keys_values(const LayerContext& c, const Run& run) {
  std::vector<at::Tensor> k, v;
  for (const Slice& slice : run.slices) {
    KeysValues kv = c.kv.upto(c.layer, slice);
    k.push_back(std::move(kv.k));
    v.push_back(std::move(kv.v));
  }
  return {joined_rows(k), joined_rows(v)};
}

AttentionResult attend_run(const LayerContext& c, const Run& run, const at::Tensor& q_TND) {
  const KeysValues kv = keys_values(c, run);
  if (run.slices.size() > 1) return attend_sequences(q_TND, kv, run.lengths);
  return attention_forward(q_TND, kv, run.slices.front().prefix());
}

AttentionGradients run_gradients(const LayerContext& c, const Run& run, const QueryRows& rows,
                                 const KeysValues& prefix_gradient) {
  const KeysValues kv = keys_values(c, run);
  if (run.slices.size() > 1) return attend_sequences_backward(rows, kv, run.lengths);
  return attention_backward(rows.dout_TND, rows.q_TND, kv, {rows.out_TND, rows.lse_TN},
                            run.slices.front().prefix(), prefix_gradient);
}

void run_backward(const LayerContext& c, const Run& run, const QueryRows& all,
                  const Projections& d) {
  // What later slices left for these tokens joins before the projection's backward.
  std::vector<KeysValues> later;
  for (const Slice& slice : run.slices) later.push_back(c.kv.gradient(c.layer, slice));
  const AttentionGradients g = run_gradients(c, run, all.narrow(run.row, run.rows), later.front());
  d.q_TND.narrow(0, run.row, run.rows).copy_(g.dq_TND);
  std::int64_t row = 0;
  for (std::size_t s = 0; s < run.slices.size(); ++s) {
    const std::int64_t begin = run.slices[s].begin.count(), count = run.lengths[s];
    const auto join = [&](const at::Tensor& to, const at::Tensor& left, const at::Tensor& own) {
      const at::Tensor own_rows = own.narrow(0, row, count);
      to.narrow(0, run.row + row, count)
          .copy_(left.defined() ? left.narrow(0, begin, count).add_(own_rows) : own_rows);
    };
    join(d.k_TGD, later[s].k, g.dk_TGD);
    join(d.v_TGD, later[s].v, g.dv_TGD);
    c.kv.release(c.layer, run.slices[s]);
    row += count;
  }
}

}  // namespace

AttentionResult attend(const LayerContext& c, const at::Tensor& q_TND) {
  if (c.group) return context_attention_forward({c.pack, *c.group, c.kv, c.layer}, q_TND);
  std::vector<at::Tensor> out, lse;
  for (const Run& run : runs_of(c, q_TND)) {
    AttentionResult result = attend_run(c, run, q_TND.narrow(0, run.row, run.rows));
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  }
  return {joined_rows(out), joined_rows(lse)};
}

at::Tensor attend_backward(const LayerContext& c, const QueryRows& rows) {
  const ModelShape& s = c.shape;
  const auto empty = [&] {
    return at::empty({rows.q_TND.size(0), s.q_width() + 2 * s.kv_width()}, rows.q_TND.options());
  };
  if (!c.group) {
    at::Tensor dqkv_TO = empty();
    const Projections d = split_qkv(dqkv_TO, s);
    for (const Run& run : runs_of(c, rows.q_TND)) run_backward(c, run, rows, d);
    return dqkv_TO;
  }
  const AttentionGradients g = context_attention_backward({c.pack, *c.group, c.kv, c.layer}, rows);
  at::Tensor dqkv_TO = empty();
  const Projections d = split_qkv(dqkv_TO, s);
  d.q_TND.copy_(g.dq_TND);
  d.k_TGD.copy_(g.dk_TGD);
  d.v_TGD.copy_(g.dv_TGD);
  for (const Slice& slice : c.pack.slices) c.kv.release(c.layer, slice);
  return dqkv_TO;
}

}  // namespace slimpack
