#include "slimpack/packflow/layer/pack_attention.h"

#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/layer/context_attention.h"
#include "slimpack/packflow/layer/layer_parts.h"

namespace slimpack {
namespace {

AttentionResult attend_run(const LayerContext& c, const PackRun& run, const at::Tensor& q_TND) {
  const KeysValues kv = c.kv.upto(c.layer, run.slices);
  if (run.sequences) return attend_sequences(q_TND, kv, *run.sequences);
  return attention_forward(q_TND, kv, run.slices.front().prefix());
}

AttentionGradients run_gradients(const LayerContext& c, const PackRun& run, const QueryRows& rows,
                                 const KeysValues& prefix_gradient) {
  const KeysValues kv = c.kv.upto(c.layer, run.slices);
  if (run.sequences) return attend_sequences_backward(rows, kv, *run.sequences);
  return attention_backward(rows.dout_TND, rows.q_TND, kv, {rows.out_TND, rows.lse_TN},
                            run.slices.front().prefix(), prefix_gradient);
}

/// Undoes rope on the rows of `g`, from `row` of the MicroPack on: gradients of the projection's
/// output, but for the q/k norms.
void undo_rope(const LayerContext& c, const AttentionGradients& g, std::int64_t row,
               const Projections& d) {
  const std::int64_t rows = g.dq_TND.size(0);
  const RopeRows rope = c.rope.narrow(row, rows);
  rotate_back(g.dq_TND, rope, d.q_TND.narrow(0, row, rows));
  rotate_back(g.dk_TGD, rope, d.k_TGD.narrow(0, row, rows));
  d.v_TGD.narrow(0, row, rows).copy_(g.dv_TGD);
}

void run_backward(const LayerContext& c, const PackRun& run, const QueryRows& all,
                  const Projections& d) {
  std::vector<KeysValues> later;
  for (const Slice& slice : run.slices) later.push_back(c.kv.gradient(c.layer, slice));
  const AttentionGradients g =
      run_gradients(c, run, all.narrow(run.row, run.rows()), later.front());
  std::int64_t row = 0;
  for (std::size_t s = 0; s < run.slices.size(); ++s) {
    const std::int64_t begin = run.slices[s].begin.count(), count = run.rows_of[s];
    // What later slices left for these tokens joins before the projection's backward.
    const auto join = [&](const at::Tensor& left, const at::Tensor& own) {
      const at::Tensor own_rows = own.narrow(0, row, count);
      if (left.defined()) own_rows.copy_(left.narrow(0, begin, count).add_(own_rows));
    };
    join(later[s].k, g.dk_TGD);
    join(later[s].v, g.dv_TGD);
    c.kv.release(c.layer, run.slices[s]);
    row += count;
  }
  undo_rope(c, g, run.row, d);
}

}  // namespace

AttentionResult attend(const LayerContext& c, const at::Tensor& q_TND) {
  if (c.group) return context_attention_forward({c.pack, *c.group, c.kv, c.layer}, q_TND);
  std::vector<at::Tensor> out, lse;
  for (const PackRun& run : c.runs) {
    AttentionResult result = attend_run(c, run, q_TND.narrow(0, run.row, run.rows()));
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
    for (const PackRun& run : c.runs) run_backward(c, run, rows, d);
    return dqkv_TO;
  }
  const AttentionGradients g = context_attention_backward({c.pack, *c.group, c.kv, c.layer}, rows);
  at::Tensor dqkv_TO = empty();
  const Projections d = split_qkv(dqkv_TO, s);
  const auto type = rows.q_TND.scalar_type();
  undo_rope(c, {g.dq_TND.to(type), g.dk_TGD.to(type), g.dv_TGD}, 0, d);
  for (const Slice& slice : c.pack.slices) c.kv.release(c.layer, slice);
  return dqkv_TO;
}

}  // namespace slimpack
