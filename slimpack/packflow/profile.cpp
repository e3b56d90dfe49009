#include "slimpack/packflow/profile.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "slimpack/base/progress.h"
#include "slimpack/cost/fit.h"
#include "slimpack/packflow/attention.h"
#include "slimpack/packflow/optimizer.h"
#include "slimpack/packflow/parameters.h"
#include "slimpack/packflow/rank_threads.h"
#include "slimpack/packflow/recompute_rows.h"
#include "slimpack/packflow/rms_norm.h"
#include "slimpack/packflow/stage_step.h"
#include "slimpack/packflow/tensor.h"
#include "slimpack/packflow/thread_room.h"
#include "slimpack/packflow/thread_world.h"

namespace slimpack {
namespace {

struct PassTimes {
  Nanos forward;
  Nanos backward;
};

/// `slices` equal slices in one MicroPack, each the tail of its own sequence.
struct GridPoint {
  Tokens tokens;
  Tokens prefix;
  int slices = 1;

  [[nodiscard]] Slice slice(int sequence) const {
    return {SequenceId(sequence), prefix, prefix + tokens};
  }
};

template <class Work>
Nanos time_of(ClockKind kind, Work work) {
  const RankClock clock(kind, monotonic_now());
  const Nanos start = clock.now();
  work();
  return clock.now() - start;
}

template <class Work>
Nanos fastest_of_three(ClockKind kind, Work work) {
  return std::min({time_of(kind, work), time_of(kind, work), time_of(kind, work)});
}

/// The MicroPack to measure is the last forward and the first backward one; where there is a
/// prefix, one more pack of each pass holds it, so that the plan is whole. That one never runs.
PackPlan plan_of(const GridPoint& point) {
  PackPlan packs;
  MicroPack prefix, own;
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

/// One part of the model on one rank's thread: a decoder layer, the embedding or the head.
class Bench {
 public:
  enum class Part { kLayer, kEmbedding, kHead };

  Bench(const ProfileOptions& options, Part part)
      : options_(options),
        shape_(options.shape),
        place_{part == Part::kEmbedding, part == Part::kHead},
        rope_(shape_, options.dtype, options.context) {
    shape_.num_layers = 1;
    parameters_ = make_stage_parameters(shape_, options.dtype, {{0, 1}}, {}, {}, 0);
    if (part != Part::kLayer) parameters_.layers.clear();
  }

  [[nodiscard]] StageParameters& parameters() { return parameters_; }

  PassTimes run(const GridPoint& point) {
    PassTimes times;
    on_rows(point, [&](StageStep& step, PackId own, const at::Tensor& x_TH) {
      times.forward = time_of(options_.clock, [&] { static_cast<void>(step.forward(own, x_TH)); });
      times.backward =
          time_of(options_.clock, [&] { static_cast<void>(step.backward(PackId(0), x_TH)); });
    });
    return times;
  }

  /// Of the weight gradients alone, once everything else has run.
  Nanos run_weight_gradients(const GridPoint& point) {
    Nanos time;
    on_rows(point, [&](StageStep& step, PackId own, const at::Tensor& x_TH) {
      static_cast<void>(step.forward(own, x_TH));
      static_cast<void>(step.input_gradients(PackId(0), x_TH));
      time = time_of(options_.clock, [&] { step.weight_gradients(PackId(0)); });
    });
    return time;
  }

 private:
  /// Calls visit(step, forward MicroPack to measure, rows of its size).
  template <class Visit>
  void on_rows(const GridPoint& point, Visit visit) {
    const PackPlan packs = plan_of(point);
    const auto sequences = static_cast<std::size_t>(point.slices);
    const SequenceLengths lengths(sequences, point.prefix + point.tokens);
    const StepTokens tokens = make_step_tokens(
        {sequences, std::vector<std::int64_t>(static_cast<std::size_t>(lengths[0].count()), 0)},
        shape_.vocab_size);
    StageStep step(shape_, options_.dtype, place_, parameters_, rope_, packs, lengths, tokens);
    if (point.prefix > Tokens(0) && !parameters_.layers.empty()) fill_prefix(step, point);
    const std::int64_t rows = point.tokens.count() * point.slices;
    const at::Tensor x_TH = at::randn({rows, shape_.hidden_size}, compute_type(options_.dtype));
    visit(step, PackId(packs.forward.size() - 1), x_TH);
  }

  void fill_prefix(StageStep& step, const GridPoint& point) const {
    const at::Tensor kv = at::randn({point.prefix.count(), shape_.num_kv_heads, shape_.head_dim},
                                    compute_type(options_.dtype));
    for (int i = 0; i < point.slices; ++i)
      step.kv().write(0, {SequenceId(i), Tokens(0), point.prefix}, kv, kv);
  }

  const ProfileOptions& options_;
  ModelShape shape_;
  StagePlace place_;
  Rope rope_;
  StageParameters parameters_;
};

/// Repeats a measurement for about `budget`, two to five times, and keeps the fastest of each pass:
/// the first run warms up, and what a shared machine adds is never negative.
PassTimes measure(Bench& bench, const GridPoint& point, Nanos budget) {
  PassTimes fastest = bench.run(point);
  const Nanos first = fastest.forward + fastest.backward;
  const auto repeats =
      std::clamp<std::int64_t>(budget.count() / std::max<std::int64_t>(first.count(), 1), 1, 4);
  for (std::int64_t i = 0; i < repeats; ++i) {
    const PassTimes t = bench.run(point);
    fastest = {std::min(fastest.forward, t.forward), std::min(fastest.backward, t.backward)};
  }
  return fastest;
}

/// Short and long slices, with and without prefixes, alone and several in a MicroPack.
std::vector<GridPoint> layer_grid(Tokens context) {
  const std::int64_t c = context.count();
  std::vector<GridPoint> grid{
      {Tokens(32), Tokens(0), 1},          {Tokens(128), Tokens(0), 1},
      {Tokens(512), Tokens(0), 1},         {Tokens(2048), Tokens(0), 1},
      {Tokens(64), Tokens(0), 8},          {Tokens(256), Tokens(0), 4},
      {Tokens(128), Tokens(c / 2), 1},     {Tokens(512), Tokens(c / 4), 1},
      {Tokens(512), Tokens(c / 2), 1},     {Tokens(256), Tokens(c - 256), 1},
      {Tokens(1024), Tokens(c - 1024), 1}, {Tokens(2048), Tokens(c / 2), 1}};
  std::erase_if(grid, [&](const GridPoint& p) {
    return p.prefix < Tokens(0) || p.tokens + p.prefix > context;
  });
  if (grid.empty()) grid.push_back({context, Tokens(0), 1});
  return grid;
}

double work_of(const ModelShape& shape, const GridPoint& p) {
  const Slice slice = p.slice(0);
  double flops = 0;
  for (const bool backward : {false, true})
    flops += layer_linear_flops(shape, p.tokens, backward).count() +
             layer_attention_flops(shape, slice.causal_pairs(), backward).count();
  return flops * p.slices;
}

struct LayerTimes {
  std::vector<LayerMeasurement> forward, backward;
};

LayerTimes measure_layer(const ProfileOptions& options) {
  Bench bench(options, Bench::Part::kLayer);
  const std::vector<GridPoint> grid = layer_grid(options.context);
  const Nanos share = options.budget / static_cast<std::int64_t>(grid.size());
  LayerTimes times;
  double nanos_per_flop = 0;
  for (const GridPoint& point : grid) {
    const double work = work_of(options.shape, point);
    const double budget = static_cast<double>(options.budget.count()) / 5;
    if (!times.forward.empty() && work * nanos_per_flop > budget) continue;
    const PassTimes t = measure(bench, point, share);
    nanos_per_flop = static_cast<double>((t.forward + t.backward).count()) / work;
    times.forward.push_back({point.tokens, point.prefix, point.slices, t.forward});
    times.backward.push_back({point.tokens, point.prefix, point.slices, t.backward});
  }
  return times;
}

struct EdgeTimes {
  EdgeTime forward, backward;
};

EdgeTimes measure_edge(const ProfileOptions& options, Bench::Part part) {
  Bench bench(options, part);
  std::vector<EdgeMeasurement> forward, backward;
  for (const std::int64_t tokens : {64, 512, 2048}) {
    const Tokens measured = std::min(Tokens(tokens), options.context);
    const PassTimes t = measure(bench, {measured, Tokens(0), 1}, options.budget / 60);
    forward.push_back({measured, std::max(t.forward, Nanos(1))});
    backward.push_back({measured, std::max(t.backward, Nanos(1))});
  }
  return {fit_edge_time(forward).time, fit_edge_time(backward).time};
}

/// The part of a layer's backward that can be put off. It knows neither slices nor prefixes.
std::vector<EdgeMeasurement> measure_weight_gradients(const ProfileOptions& options) {
  Bench bench(options, Bench::Part::kLayer);
  std::vector<EdgeMeasurement> times;
  for (const std::int64_t tokens : {64, 512, 2048}) {
    const Tokens measured = std::min(Tokens(tokens), options.context);
    const auto run = [&] { return bench.run_weight_gradients({measured, Tokens(0), 1}); };
    times.push_back({measured, std::max(std::min({run(), run(), run()}), Nanos(1))});
  }
  return times;
}

/// What backward computes again of a layer that keeps its matrix products: its two norms and
/// silu(gate) ⊙ up. Timed by itself, because the difference of two passes would drown in what a
/// shared machine adds to either.
std::vector<EdgeMeasurement> measure_elementwise(const ProfileOptions& options) {
  const auto type = compute_type(options.dtype);
  std::vector<EdgeMeasurement> times;
  for (const std::int64_t tokens : {64, 512, 2048}) {
    const Tokens measured = std::min(Tokens(tokens), options.context);
    const at::Tensor x_TH = at::randn({measured.count(), options.shape.hidden_size}, type);
    LayerRows rows;
    rows.gate_up_TO = at::randn({measured.count(), 2 * options.shape.intermediate_size}, type);
    const Nanos time = fastest_of_three(options.clock, [&] {
      static_cast<void>(rms_normalize(x_TH, options.shape.rms_norm_eps));
      static_cast<void>(rms_normalize(x_TH, options.shape.rms_norm_eps));
      static_cast<void>(activation(rows));
    });
    times.push_back({measured, std::max(time, Nanos(1))});
  }
  return times;
}

/// The parts of backward that can be saved and that can wait. They are fitted apart from it, and on
/// small shapes noise decides which of its terms a constant goes to. So either must fit into what
/// backward has of a term; the smaller one, far less than half of it, goes first.
void fit_parts_of_backward(CostModel& cost, const ProfileOptions& options) {
  LayerTime room{.per_pack = cost.backward.per_pack / 2, .per_token = cost.backward.per_token / 2};
  const EdgeTime again = fit_part(measure_elementwise(options), room).time;
  room.per_pack = cost.backward.per_pack - again.per_pack;
  room.per_token = cost.backward.per_token - again.per_token;
  cost.weight_gradient = fit_part(measure_weight_gradients(options), room).time;
  const EdgeTime& weights = cost.weight_gradient;
  cost.elementwise = {std::min(again.per_pack, cost.backward.per_pack - weights.per_pack),
                      std::min(again.per_token, cost.backward.per_token - weights.per_token)};
}

double measure_optimizer(const ProfileOptions& options) {
  Bench bench(options, Bench::Part::kLayer);
  const auto update = [&] {
    static_cast<void>(squared_gradient_norm(bench.parameters()));
    adamw_update(bench.parameters(), TrainConfig{}, 0, 1.0);
    zero_gradients(bench.parameters());
  };
  update();
  return static_cast<double>(time_of(options.clock, update).count()) /
         static_cast<double>(parameter_count(bench.parameters()));
}

/// One way of a message between two waiting threads, from round trips. Nothing is copied, so the
/// size does not matter.
double measure_hand_over() {
  constexpr int kRoundTrips = 200;
  ThreadWorld pair({.stages = 2}, 1);
  RankThreads threads(2, /*pin=*/false);
  const at::Tensor message = at::zeros({1});
  const Nanos taken = time_of(ClockKind::kWall, [&] {
    threads.run([&](std::int32_t rank) {
      RankClock clock(ClockKind::kWall, Nanos(0));
      const auto neighbour = pair.communicator(rank, clock);
      for (int i = 0; i < kRoundTrips; ++i) {
        if (rank == 0) neighbour->send(Direction::kForward, message);
        static_cast<void>(
            neighbour->receive(rank == 0 ? Direction::kBackward : Direction::kForward));
        if (rank == 1) neighbour->send(Direction::kBackward, message);
      }
    });
  });
  return static_cast<double>(taken.count()) / (2 * kRoundTrips);
}

/// Runs `work` on every rank's thread at once and returns what the first rank found.
template <class Result>
Result on_ranks(const ProfileOptions& options, const std::function<Result()>& work) {
  RankThreads threads(options.ranks, options.pin_threads);
  SharedFailure failures;
  std::optional<Result> result;
  threads.run([&](std::int32_t rank) {
    try {
      Result mine = work();
      if (rank == 0) result = std::move(mine);
    } catch (...) {
      failures.fail(std::current_exception());
    }
  });
  if (failures.cause()) std::rethrow_exception(failures.cause());
  return *std::move(result);
}

}  // namespace

CostModel profile_costs(const ProfileOptions& options) {
  CostModel measured = on_ranks<CostModel>(options, [&] {
    const LayerTimes layer = measure_layer(options);
    const auto forward = fit_layer_time(layer.forward);
    const auto backward = fit_layer_time(layer.backward);
    CostModel cost;
    cost.source = fmt::format("profile of this machine, {} thread{}, {}", options.ranks,
                              options.ranks == 1 ? "" : "s at once", to_string(options.dtype));
    cost.shape = options.shape;
    cost.dtype = options.dtype;
    cost.forward = forward.time;
    cost.backward = backward.time;
    fit_parts_of_backward(cost, options);
    cost.fit_error = std::max(forward.largest_error, backward.largest_error);
    const EdgeTimes embedding = measure_edge(options, Bench::Part::kEmbedding);
    cost.embedding_forward = embedding.forward;
    cost.embedding_backward = embedding.backward;
    cost.head_backward = measure_edge(options, Bench::Part::kHead).backward;
    cost.optimizer_per_parameter = measure_optimizer(options);
    return cost;
  });
  measured.transfer_latency = options.clock == ClockKind::kWall ? measure_hand_over() : 0;
  return measured;
}

std::vector<PassRatio> measure_pass_ratios(const ProfileOptions& options) {
  return on_ranks<std::vector<PassRatio>>(options, [&] {
    Bench bench(options, Bench::Part::kLayer);
    const ModelShape& s = options.shape;
    const auto type = compute_type(options.dtype);
    std::vector<PassRatio> ratios;
    for (Tokens tokens{256}; tokens <= options.context; tokens = tokens * 4) {
      const std::int64_t n = tokens.count();
      const at::Tensor q_TND = at::randn({n, s.num_heads, s.head_dim}, type);
      const at::Tensor kv = at::randn({n, s.num_kv_heads, s.head_dim}, type);
      AttentionResult result;
      const Nanos forward = fastest_of_three(options.clock, [&] {
        result = attention_forward(q_TND, {kv, kv}, Tokens(0));
      });
      const Nanos backward = fastest_of_three(options.clock, [&] {
        static_cast<void>(attention_backward(q_TND, q_TND, {kv, kv}, result, Tokens(0), {}));
      });
      const PassTimes layer = measure(bench, {tokens, Tokens(0), 1}, options.budget / 10);
      ratios.push_back(
          {tokens, forward, backward, layer.forward - forward, layer.backward - backward});
    }
    return ratios;
  });
}

}  // namespace slimpack
