
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/layer/context_attention.h"
#include "slimpack/packflow/layer/layer_parts.h"

namespace slimpack {
namespace {

/// Whether the run is the slice whose oldest keys the rank gives away, which runs by itself.
bool gives_keys(const LayerContext& c, const PackRun& run, const AttentionExchange* exchange) {
  return exchange != nullptr && exchange->gives &&
         run.slices.data() == &c.pack.slices[exchange->slice];
}

/// The run that gives keys away. REQUIRES: the rank gives.
const PackRun& giving_run(const LayerContext& c, const AttentionExchange& exchange) {
  return *std::ranges::find_if(c.runs,
                               [&](const PackRun& run) { return gives_keys(c, run, &exchange); });
}

/// Without the first `given` keys of the run's sequence.
KeysValues kept_keys(const KeysValues& kv, std::int64_t given) {
  return kv.narrow(given, kv.k.size(0) - given);
}

AttentionResult attend_run(const LayerContext& c, const PackRun& run, const at::Tensor& q_TND,
                           std::int64_t given) {
  const KeysValues kv = c.kv.upto(c.layer, run.slices);
  if (run.sequences) return attend_sequences(q_TND, kv, *run.sequences, c.shape.window);
  return attention_forward(q_TND, kept_keys(kv, given), run.slices.front().prefix() - Tokens(given),
                           c.shape.window);
}

AttentionGradients run_gradients(const LayerContext& c, const PackRun& run, const QueryRows& rows,
                                 const KeysValues& prefix_gradient, std::int64_t given) {
  const KeysValues kv = c.kv.upto(c.layer, run.slices);
  if (run.sequences) return attend_sequences_backward(rows, kv, *run.sequences, c.shape.window);
  return attention_backward(
      rows.dout_TND, rows.q_TND, kept_keys(kv, given), {rows.out_TND, rows.lse_TN},
      run.slices.front().prefix() - Tokens(given),
      given > 0 ? kept_keys(prefix_gradient, given) : prefix_gradient, c.shape.window);
}

/// Begins the exchange of a forward: sends what the rank gives, or makes room for what it takes.
void start_forward(const LayerContext& c, const AttentionExchange& exchange,
                   const at::Tensor& q_TND) {
  if (exchange.gives) {
    const PackRun& run = giving_run(c, exchange);
    give_forward(exchange, q_TND.narrow(0, run.row, run.rows()), c.kv.upto(c.layer, run.slices));
  } else {
    expect_forward(exchange, q_TND, c.kv.upto(c.layer, c.pack.slices.front()));
  }
}

void start_backward(const LayerContext& c, const AttentionExchange& exchange,
                    const QueryRows& rows) {
  if (exchange.gives) {
    const PackRun& run = giving_run(c, exchange);
    give_backward(exchange, rows.narrow(run.row, run.rows()), c.kv.upto(c.layer, run.slices));
  } else {
    expect_backward(exchange, rows.q_TND, c.kv.upto(c.layer, c.pack.slices.front()));
  }
}

/// Adds the prefixes' part of a joined call to the gradients of their sequences; what is left are
/// the slices' own, one below the other.
AttentionGradients without_prefixes(AttentionGradients g, std::span<const Slice> slices,
                                    const std::vector<KeysValues>& of_sequences) {
  std::vector<at::Tensor> dk, dv;
  std::int64_t key = 0;
  for (std::size_t s = 0; s < slices.size(); ++s) {
    const std::int64_t before = slices[s].begin.count(), own = slices[s].length().count();
    if (before > 0)
      AttentionGradients{{}, g.dk_TGD.narrow(0, key, before), g.dv_TGD.narrow(0, key, before)}
          .add_to(of_sequences[s]);
    dk.push_back(g.dk_TGD.narrow(0, key + before, own));
    dv.push_back(g.dv_TGD.narrow(0, key + before, own));
    key += before + own;
  }
  if (key == g.dq_TND.size(0)) return g;  // none has a prefix
  return {std::move(g.dq_TND), joined_rows(dk), joined_rows(dv)};
}

/// Gradients of a MicroPack's projections, made of attention's. They take memory when somebody asks
/// for it first.
class ProjectionGradients {
 public:
  /// `before`: q and k before their norms where these are undone with rope.
  ProjectionGradients(const LayerContext& c, const QueryRows& rows, const fused::Heads& before)
      : c_(c), rows_(rows), before_(before) {}

  void allocate() {
    if (dqkv_TO_.defined()) return;
    const LayerShape& s = c_.shape;
    dqkv_TO_ =
        at::empty({rows_.q_TND.size(0), s.q_width() + 2 * s.k_width()}, rows_.q_TND.options());
    parts_ = split_qkv(dqkv_TO_, s);
  }
  /// Undoes rope on the rows of `g`, from `row` of the MicroPack on, and the norms before it.
  void undo_rope(const AttentionGradients& g, std::int64_t row) {
    allocate();
    const std::int64_t rows = g.dq_TND.size(0);
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, row, rows); };
    const fused::Heads d{part(parts_.q_TND), part(parts_.k_TGD), part(parts_.v_TGD)};
    const RopeRows rope = c_.rope.narrow(row, rows);
    if (!before_.q_TND.defined()) return rotate_back({g.dq_TND, g.dk_TGD, g.dv_TGD}, rope, d);
    LayerParameters& p = c_.parameters;
    fused::normed_rope_backward({g.dq_TND, g.dk_TGD, g.dv_TGD}, {rope.cos, rope.sin},
                                head_norms(c_), {part(before_.q_TND), part(before_.k_TGD), {}}, d,
                                {p.q_norm_D.gradient, p.k_norm_D.gradient});
  }
  [[nodiscard]] at::Tensor take() {
    allocate();
    return std::move(dqkv_TO_);
  }

 private:
  const LayerContext& c_;
  const QueryRows& rows_;
  const fused::Heads& before_;
  at::Tensor dqkv_TO_;
  fused::Heads parts_;
};

void run_backward(const LayerContext& c, const PackRun& run, const QueryRows& all,
                  ProjectionGradients& gradients) {
  std::vector<KeysValues> later;
  for (const Slice& slice : run.slices) later.push_back(c.kv.gradient(c.layer, slice));
  const bool gives = gives_keys(c, run, c.exchange);
  AttentionGradients g = run_gradients(c, run, all.narrow(run.row, run.rows()), later.front(),
                                       gives ? c.exchange->keys : 0);
  if (run.sequences) g = without_prefixes(std::move(g), run.slices, later);
  if (gives) {
    const AttentionGradients taken = taken_gradients(*c.exchange);
    g.dq_TND.add_(taken.dq_TND);
    taken.add_to(later.front());
  }
  std::int64_t row = 0;
  for (std::size_t s = 0; s < run.slices.size(); ++s) {
    const std::int64_t begin = run.slices[s].begin.count(), count = run.rows_of[s];
    // The gradients that later slices left for these tokens join before the projection's backward.
    const auto join = [&](const at::Tensor& left, const at::Tensor& own) {
      const at::Tensor own_rows = own.narrow(0, row, count);
      own_rows.copy_(left.narrow(0, begin, count).add_(own_rows));
    };
    if (c.kv.has_later(run.slices[s])) {
      join(later[s].k, g.dk_TGD);
      join(later[s].v, g.dv_TGD);
    }
    c.kv.release(c.layer, run.slices[s]);
    row += count;
  }
  gradients.undo_rope(g, run.row);
}

SharedSlices shared_slices(const LayerContext& c, const PackRun& run) {
  return {run.slices, run.zone, *c.group, c.kv, c.layer, c.cp_comm_type, c.shape.window};
}

/// Passes of several zones by turns, round by round.
template <class Pass>
void run_rounds(std::vector<Pass>& passes) {
  std::int32_t most = 0;
  for (const Pass& pass : passes) most = std::max(most, pass.rounds());
  for (std::int32_t round = 0; round < most; ++round)
    for (Pass& pass : passes)
      if (round < pass.rounds()) pass.run(round);
}

/// Attention of the slices that no other replica shares, run by run; nothing for others.
std::vector<AttentionResult> attend_alone(const LayerContext& c, const at::Tensor& q_TND,
                                          const AttentionExchange* exchange) {
  std::vector<AttentionResult> results(c.runs.size());
  for (std::size_t r = 0; r < c.runs.size(); ++r) {
    const PackRun& run = c.runs[r];
    if (run.shared()) continue;
    const bool gives = gives_keys(c, run, exchange);
    results[r] =
        attend_run(c, run, q_TND.narrow(0, run.row, run.rows()), gives ? exchange->keys : 0);
  }
  return results;
}

/// The result for a MicroPack of whose slices the rank holds nothing.
AttentionResult no_rows(const at::Tensor& q_TND) {
  return {at::empty_like(q_TND),
          at::empty({0, q_TND.size(1)}, q_TND.options().dtype(accumulate_type(q_TND)))};
}

/// Runs backward of the slices that no other replica shares.
void backward_alone(const LayerContext& c, const QueryRows& rows, ProjectionGradients& gradients) {
  if (std::ranges::all_of(c.runs, &PackRun::shared)) return;
  gradients.allocate();
  if (c.exchange != nullptr) start_backward(c, *c.exchange, rows);
  for (const PackRun& run : c.runs)
    if (!run.shared() && !gives_keys(c, run, c.exchange)) run_backward(c, run, rows, gradients);
  // The run that waits for the other rank comes last.
  if (c.exchange != nullptr && c.exchange->gives)
    run_backward(c, giving_run(c, *c.exchange), rows, gradients);
  else if (c.exchange != nullptr)
    take_backward(*c.exchange);
}

}  // namespace

// Shared runs begin first, so that their rows travel while the rank attends to its own runs.
AttentionResult attend(const LayerContext& c, const at::Tensor& q_TND,
                       const AttentionExchange* exchange) {
  SLIMPACK_CHECK(exchange == nullptr || c.shape.window == 0,
                 "the attention of a layer with a window is exchanged");
  if (c.runs.empty()) return no_rows(q_TND);
  std::vector<ContextForward> passes;
  for (const PackRun& run : c.runs)
    if (run.shared())
      passes.emplace_back(shared_slices(c, run), q_TND.narrow(0, run.row, run.rows()));
  if (exchange != nullptr) start_forward(c, *exchange, q_TND);
  std::vector<AttentionResult> results = attend_alone(c, q_TND, exchange);
  run_rounds(passes);
  auto pass = passes.begin();
  for (std::size_t r = 0; r < c.runs.size(); ++r)
    if (c.runs[r].shared()) results[r] = (pass++)->take();
  passes.clear();
  if (exchange != nullptr && exchange->gives) {
    AttentionResult& own =
        results[static_cast<std::size_t>(&giving_run(c, *exchange) - c.runs.data())];
    own = merged_with_taken(*exchange, std::move(own));
  } else if (exchange != nullptr) {
    take_forward(*exchange);
  }
  std::vector<at::Tensor> out, lse;
  for (AttentionResult& result : results) {
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  }
  return {joined_rows(out), joined_rows(lse)};
}

at::Tensor attend_backward(const LayerContext& c, const QueryRows& rows,
                           const fused::Heads& before) {
  ProjectionGradients gradients(c, rows, before);
  std::vector<ContextBackward> passes;
  for (const PackRun& run : c.runs)
    if (run.shared()) passes.emplace_back(shared_slices(c, run), rows.narrow(run.row, run.rows()));
  backward_alone(c, rows, gradients);
  run_rounds(passes);
  const auto type = rows.q_TND.scalar_type();
  auto pass = passes.begin();
  for (const PackRun& run : c.runs) {
    if (!run.shared()) continue;
    const AttentionGradients g = (pass++)->take();
    gradients.allocate();
    // One kernel takes gradients of one type; a copy converts them by itself.
    const bool converts = rotation_copies_values(rows.q_TND);
    gradients.undo_rope(
        {g.dq_TND.to(type), g.dk_TGD.to(type), converts ? g.dv_TGD.to(type) : g.dv_TGD}, run.row);
    for (const Slice& slice : run.slices) c.kv.release(c.layer, slice);
  }
  return gradients.take();
}

}  // namespace slimpack
