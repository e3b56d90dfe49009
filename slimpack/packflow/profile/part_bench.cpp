#include "slimpack/packflow/profile/part_bench.h"

#include <ATen/ops/randn.h>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

/// The two shortest of several times.
struct Shortest {
  Nanos fastest{std::numeric_limits<std::int64_t>::max()};
  Nanos second = fastest;

  void add(Nanos time) {
    second = std::min(second, std::max(fastest, time));
    fastest = std::min(fastest, time);
  }
  /// REQUIRES: two times at least.
  [[nodiscard]] double spread() const {
    const auto shortest = static_cast<double>(std::max(Nanos(1), fastest).count());
    return static_cast<double>((second - fastest).count()) / shortest;
  }
};

struct PassRuns {
  Shortest forward;
  Shortest backward;

  void add(const PassTimes& times) {
    forward.add(times.forward);
    backward.add(times.backward);
  }
};

}  // namespace

PackPlan plan_of(const ProfilePoint& point) {
  PackPlan packs;
  MicroPack prefix{{}, point.replicas}, own{{}, point.replicas};
  for (int i = 0; i < point.slices; ++i) {
    prefix.slices.push_back({SequenceId(i), Tokens(0), point.prefix});
    own.slices.push_back(point.slice(i));
  }
  packs.backward = {own};
  if (point.prefix > Tokens(0)) {
    packs.forward = {prefix, own};
    packs.backward.push_back(prefix);
  } else {
    packs.forward = {own};
  }
  return packs;
}

SequenceLengths lengths_of(const ProfilePoint& point) {
  return SequenceLengths(static_cast<std::size_t>(point.slices), point.prefix + point.tokens);
}

at::TensorOptions tensor_options(const ProfileOptions& options) {
  return at::dtype(compute_type(options.dtype)).device(options.device);
}

PartBench::PartBench(const ProfileOptions& options, const ProfileRank& rank, Part part)
    : options_(options),
      rank_(rank),
      shape_(options.shape),
      place_{part == Part::kEmbedding,
             part == Part::kHead,
             {rank.place().replica, rank.tensor(), rank.place().tensor}},
      rope_(shape_, options.dtype, options.context, options.device) {
  shape_.num_layers = 1;
  // The optimizer's state of a layer whole: shares of it cost as much an element.
  const RankGrid alone{.tensor = rank.tensor()};
  parameters_ =
      make_stage_parameters(shape_, options.dtype, {{0, 1}}, alone,
                            alone.place(rank.place().tensor), StageId(0), 0, options.device);
  if (part != Part::kLayer) parameters_.layers.clear();
}

PassTimes PartBench::run(const ProfilePoint& point) {
  PassTimes times;
  on_rows(point, [&](StageStep& step, PackId own, const at::Tensor& x_TH) {
    times.forward = rank_.time_of([&] { static_cast<void>(step.forward(own, x_TH)); });
    times.backward = rank_.time_of([&] { static_cast<void>(step.backward(PackId(0), x_TH)); });
  });
  return times;
}

std::vector<RepeatedTimes> PartBench::measure(std::span<const ProfilePoint> points, Nanos share) {
  constexpr int kMostRounds = 8;
  std::vector<PassRuns> runs(points.size());
  std::vector<double> rounds;  // after the first one
  for (std::size_t i = 0; i < points.size(); ++i) {
    const PassTimes first = run(points[i]);
    runs[i].add(first);
    const auto time = static_cast<double>((first.forward + first.backward).count());
    rounds.push_back(rank_.mean(static_cast<double>(share.count()) / std::max(time, 1.0)));
  }
  for (int round = 1; round <= kMostRounds; ++round) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (round > std::max(rounds[i], 1.0)) continue;
      runs[i].add(run(points[i]));
    }
  }
  std::vector<RepeatedTimes> times;
  for (const PassRuns& r : runs) {
    RepeatedTimes& t = times.emplace_back();
    t.forward = rank_.mean(r.forward.fastest);
    t.backward = rank_.mean(r.backward.fastest);
    t.forward_spread = rank_.mean(r.forward.spread());
    t.backward_spread = rank_.mean(r.backward.spread());
  }
  return times;
}

Nanos PartBench::run_weight_gradients(const ProfilePoint& point) {
  Nanos time;
  on_rows(point, [&](StageStep& step, PackId own, const at::Tensor& x_TH) {
    static_cast<void>(step.forward(own, x_TH));
    static_cast<void>(step.input_gradients(PackId(0), x_TH));
    time = rank_.time_of([&] { step.weight_gradients(PackId(0)); });
  });
  return time;
}

void PartBench::on_rows(const ProfilePoint& point,
                        const std::function<void(StageStep&, PackId, const at::Tensor&)>& visit) {
  const PackPlan packs = plan_of(point);
  const SequenceLengths lengths = lengths_of(point);
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(lengths[0].count()), 0);
  const StepTokens tokens = make_step_tokens({lengths.size(), zeros}, shape_.vocab_size);
  StageStep step(shape_, place_, parameters_, rope_, packs, lengths, tokens, {},
                 &rank_.communicator());
  if (point.prefix > Tokens(0) && !parameters_.layers.empty())
    fill_prefix(step, packs.forward.front());
  const MicroPack& own = packs.forward.back();
  const RowShare share = hidden_share(row_share(own, place_.holder.replica), place_.holder.tensor,
                                      place_.holder.index);
  visit(step, PackId(packs.forward.size() - 1),
        at::randn({share.rows(own).count(), shape_.hidden_size}, tensor_options(options_)));
}

void PartBench::fill_prefix(StageStep& step, const MicroPack& prefix) const {
  const ModelShape part = tensor_parallel_part(shape_, place_.holder.tensor);
  const RowShare share = row_share(prefix, place_.holder.replica);
  for (const Slice& slice : prefix.slices) {
    const at::Tensor kv = at::randn({share.rows(slice).count(), part.num_kv_heads, part.head_dim},
                                    tensor_options(options_));
    step.kv().write(0, std::span(&slice, 1), kv, kv);
  }
}

}  // namespace slimpack
