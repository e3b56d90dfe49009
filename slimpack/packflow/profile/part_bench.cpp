#include "slimpack/packflow/profile/part_bench.h"

#include <ATen/ops/randn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "slimpack/base/median.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

constexpr std::size_t kLine = 64;

/// Several times the largest cache that a processor has for itself. The system says 0 where it does
/// not know it.
std::size_t bytes_of_others() {
  constexpr long kUsual = 2 << 20;
  constexpr std::size_t kTimes = 8;
  const long second_level = std::max(::sysconf(_SC_LEVEL2_CACHE_SIZE), 0L);
  return kTimes * static_cast<std::size_t>(second_level > 0 ? second_level : kUsual);
}

}  // namespace

ColdCaches::ColdCaches(c10::Device device) {
  if (device.is_cpu()) others_.resize(bytes_of_others());
}

void ColdCaches::displace() {
  for (std::size_t i = 0; i < others_.size(); i += kLine) ++others_[i];
}

namespace {

/// The runs of a point after the first one, in nanoseconds.
struct PassRuns {
  std::vector<double> forward;
  std::vector<double> backward;

  void add(const PassTimes& times) {
    forward.push_back(static_cast<double>(times.forward.count()));
    backward.push_back(static_cast<double>(times.backward.count()));
  }
};

Nanos median_of(const std::vector<double>& runs) {
  return Nanos(static_cast<std::int64_t>(median(runs)));
}

double spread_of(const std::vector<double>& runs) {
  const double fastest = std::max(1.0, std::ranges::min(runs));
  return median(runs) / fastest - 1;
}

std::string_view name_of(PartBench::Part part) {
  switch (part) {
    case PartBench::Part::kLayer:
      return "layer";
    case PartBench::Part::kEmbedding:
      return "embedding";
    case PartBench::Part::kHead:
      return "head";
  }
  return "";
}

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
      name_(name_of(part)),
      shape_(options.shape),
      place_{part == Part::kEmbedding,
             part == Part::kHead,
             {rank.place().replica, rank.tensor(), rank.place().tensor},
             false,
             options.cp_comm_type},
      rope_(shape_, options.dtype, options.context, options.device),
      caches_(options.device) {
  shape_.set_layers(1);
  // The optimizer's state of a layer whole: shares of it cost as much an element.
  const RankGrid alone{.tensor = rank.tensor()};
  parameters_ =
      make_stage_parameters(shape_, options.dtype, {{0, 1}}, alone,
                            alone.place(rank.place().tensor), StageId(0), 0, options.device);
  if (part != Part::kLayer) parameters_.layers.clear();
}

PassTimes PartBench::run(const ProfilePoint& point, Recompute recompute) {
  PassTimes times;
  on_rows(point, recompute, [&](StageStep& step, PackId own, const at::Tensor& x_TH) {
    caches_.displace();
    times.forward = rank_.time_of([&] { static_cast<void>(step.forward(own, x_TH)); });
    caches_.displace();
    times.backward = rank_.time_of([&] { static_cast<void>(step.backward(PackId(0), x_TH)); });
  });
  return times;
}

void PartBench::heat(const ProfilePoint& point) {
  if (options_.device.is_cpu()) return;
  for (Nanos spent; spent < options_.budget / 2;) {
    const PassTimes times = run(point);
    spent += rank_.mean(times.forward + times.backward);  // all ranks count alike
  }
}

std::vector<RepeatedTimes> PartBench::measure(std::span<const ProfilePoint> points, Nanos share) {
  constexpr double kFewest = 3, kMost = 8;
  std::vector<PassRuns> runs(points.size());
  std::vector<double> rounds;  // after the first one
  std::int64_t all = 0;
  for (const ProfilePoint& point : points) {
    const PassTimes first = run(point);
    const auto time = static_cast<double>((first.forward + first.backward).count());
    const double affordable = rank_.mean(static_cast<double>(share.count()) / std::max(time, 1.0));
    rounds.push_back(std::clamp(std::floor(affordable), kFewest, kMost));
    all += static_cast<std::int64_t>(rounds.back());
  }
  std::int64_t done = 0;
  for (double round = 1; round <= kMost; ++round) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (round > rounds[i]) continue;
      runs[i].add(run(points[i]));
      if (options_.on_run && rank_.first()) options_.on_run(name_, ++done, all);
    }
  }
  std::vector<RepeatedTimes> times;
  for (const PassRuns& r : runs) {
    RepeatedTimes& t = times.emplace_back();
    t.forward = rank_.mean(median_of(r.forward));
    t.backward = rank_.mean(median_of(r.backward));
    t.forward_spread = rank_.mean(spread_of(r.forward));
    t.backward_spread = rank_.mean(spread_of(r.backward));
  }
  return times;
}

Nanos PartBench::run_weight_gradients(const ProfilePoint& point) {
  Nanos time;
  on_rows(point, Recompute::kElementwise, [&](StageStep& step, PackId own, const at::Tensor& x_TH) {
    static_cast<void>(step.forward(own, x_TH));
    static_cast<void>(step.input_gradients(PackId(0), x_TH));
    caches_.displace();
    time = rank_.time_of([&] { step.weight_gradients(PackId(0)); });
  });
  return time;
}

void PartBench::on_rows(const ProfilePoint& point, Recompute recompute,
                        const std::function<void(StageStep&, PackId, const at::Tensor&)>& visit) {
  const PackPlan packs = plan_of(point);
  const SequenceLengths lengths = lengths_of(point);
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(lengths[0].count()), 0);
  const StepTokens tokens = make_step_tokens({lengths.size(), zeros}, shape_.vocab_size);
  const StepInputs inputs(reader_of(shape_, place_, parameters_), packs, tokens);
  StageStep step(shape_, place_, parameters_, rope_, packs, lengths, inputs, {recompute},
                 &rank_.communicator());
  if (point.prefix > Tokens(0) && !parameters_.layers.empty())
    fill_prefix(step, packs.forward.front());
  const MicroPack& own = packs.forward.back();
  const PackShare share =
      PackShare(own, place_.holder.replica).hidden(place_.holder.tensor, place_.holder.index);
  visit(step, PackId(packs.forward.size() - 1),
        at::randn({share.rows().count(), shape_.hidden_size()}, tensor_options(options_)));
}

void PartBench::fill_prefix(StageStep& step, const MicroPack& prefix) const {
  const LayerShape part = tensor_parallel_part(shape_.kinds.front(), place_.holder.tensor);
  const PackShare share(prefix, place_.holder.replica);
  for (std::size_t s = 0; s < prefix.slices.size(); ++s) {
    const Slice& slice = prefix.slices[s];
    const at::Tensor kv =
        at::randn({share.of(s).rows(slice).count(), part.num_kv_heads, part.head_dim},
                  tensor_options(options_));
    step.kv().write(0, std::span(&slice, 1), kv, kv);
  }
}

}  // namespace slimpack
