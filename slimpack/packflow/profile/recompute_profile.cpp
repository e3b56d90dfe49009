// Steps:
//   1. The sizes and the number of turns that the budget allows, by the layer's times.
//   2. Every policy by turns, and the fastest backward of each: differences of policies are small
//      beside what a shared machine adds. Then weight gradients alone, on the same hot device.
//   3. Fits of what each takes beyond Recompute::kElementwise.
#include "slimpack/packflow/profile/profile_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/fit.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/recomputed_cost.h"
#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/profile/part_bench.h"

namespace slimpack {
namespace {

/// Whether kElementwise computes anything that kNothing does not.
bool elementwise_again(const ProfileOptions& options) {
  LayerWidths widths(options.shape, 0, options.dtype, options.tp);
  if (options.device.is_cpu()) return widths.elementwise_again();
  GpuMemory gpu = options.gpu.value_or(gpu_memory(HardwareSpec()));
  gpu.fused_kernels = fused::are_there_on(options.device);
  widths.run_on(gpu);
  return widths.elementwise_again();
}

/// kOffload computes what kElementwise does; its copies are timed with the other exchanges. Where
/// kNothing does, too, no plan chooses it. A busy CPU adds more to the few runs of a policy than
/// its products differ from those of forward, which many runs have timed.
std::vector<Recompute> timed_policies(const ProfileOptions& options) {
  std::vector<Recompute> policies{Recompute::kElementwise};
  if (!options.device.is_cpu())
    policies.insert(policies.end(), {Recompute::kAttention, Recompute::kMlp, Recompute::kFull});
  if (elementwise_again(options)) policies.push_back(Recompute::kNothing);
  return policies;
}

double count(Nanos time) {
  return static_cast<double>(time.count());
}

Slice document(Tokens size) {
  return {SequenceId(), Tokens(0), size};
}

/// A run of both passes with the policy that takes longest.
double longest_run(const Costs& cost, Tokens size) {
  return cost.kinds.front().forward(document(size)) +
         backward_time(cost, Recompute::kFull)(document(size));
}

/// The sizes of which a run takes no more than a point may, and two in any case.
std::vector<Tokens> sizes_within(const Costs& cost, const ProfileOptions& options) {
  std::vector<Tokens> sizes = linear_sizes(options, kSmallSizes);
  while (sizes.size() > 2 && longest_run(cost, sizes.back()) > count(options.most_of_a_point()))
    sizes.pop_back();
  return sizes;
}

int turns_within(const Costs& cost, const ProfileOptions& options, const std::vector<Tokens>& sizes,
                 std::size_t policies) {
  constexpr double kFewest = 2, kMost = 4;
  double turn = 0;
  for (const Tokens size : sizes) turn += longest_run(cost, size);
  const double all = static_cast<double>(policies) * std::max(turn, 1.0);
  return static_cast<int>(std::clamp(std::floor(count(options.budget / 4) / all), kFewest, kMost));
}

/// Times of one size: backward by policy, 0 where it was not timed, and the weight gradients alone.
struct PartTimes {
  Tokens size;
  std::array<Nanos, kRecomputations> backward{};
  Nanos weights{};

  [[nodiscard]] Nanos of(Recompute recompute) const {
    return backward[static_cast<std::size_t>(recompute)];
  }
};

std::vector<PartTimes> run_parts(const Costs& cost, const ProfileOptions& options,
                                 const ProfileRank& rank) {
  const std::vector<Recompute> policies = timed_policies(options);
  const std::vector<Tokens> sizes = sizes_within(cost, options);
  const int turns = turns_within(cost, options, sizes, policies.size());
  PartBench bench(options, rank, PartBench::Part::kLayer);
  bench.heat({sizes.back(), Tokens(0)});
  std::vector<PartTimes> times;
  for (const Tokens size : sizes) {
    const ProfilePoint point{size, Tokens(0)};
    PartTimes& t = times.emplace_back(PartTimes{size});
    for (int turn = 0; turn < turns; ++turn)
      for (const Recompute recompute : policies) {
        const Nanos run = bench.run(point, recompute).backward;
        Nanos& fastest = t.backward[static_cast<std::size_t>(recompute)];
        fastest = turn == 0 ? run : std::min(fastest, run);
      }
    for (const Recompute recompute : policies) {
      Nanos& fastest = t.backward[static_cast<std::size_t>(recompute)];
      fastest = rank.mean(fastest);
    }
    const auto weights = [&] { return bench.run_weight_gradients(point); };
    t.weights = rank.mean(std::min({weights(), weights(), weights()}));
  }
  return times;
}

/// Keeps what it finds.
std::vector<PartTimes> measured_parts(const Costs& cost, const ProfileOptions& options,
                                      const ProfileRank& rank) {
  const std::vector<double> figures = options.figures_of("backward", rank.first(), [&] {
    std::vector<double> flat;
    for (const PartTimes& t : run_parts(cost, options, rank)) {
      flat.push_back(static_cast<double>(t.size.count()));
      for (const Nanos backward : t.backward) flat.push_back(count(backward));
      flat.push_back(count(t.weights));
    }
    return flat;
  });
  constexpr std::size_t kFigures = kRecomputations + 2;
  SLIMPACK_CHECK(figures.size() % kFigures == 0);
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  std::vector<PartTimes> times;
  for (auto f = figures.begin(); f != figures.end(); f += kFigures) {
    PartTimes& t = times.emplace_back(PartTimes{Tokens(whole(f[0]))});
    for (std::size_t r = 0; r < kRecomputations; ++r) t.backward[r] = Nanos(whole(f[1 + r]));
    t.weights = Nanos(whole(f[1 + kRecomputations]));
  }
  return times;
}

/// Fits the time that backward saves in a layer that keeps everything, and its weight gradients.
/// They are fitted separately, and on small shapes noise decides which term a constant goes to. So
/// both must fit into each term of backward; the smaller part, far less than half of it, goes
/// first.
void fit_parts(LayerCosts& layer, const std::vector<PartTimes>& times) {
  std::vector<EdgeMeasurement> saved, weights;
  for (const PartTimes& t : times) {
    weights.push_back({t.size, t.weights});
    if (t.of(Recompute::kNothing) == Nanos(0)) continue;
    saved.push_back(
        {t.size, std::max(Nanos(1), t.of(Recompute::kElementwise) - t.of(Recompute::kNothing))});
  }
  PackCost room{.per_pack = layer.backward.per_pack / 2, .per_token = layer.backward.per_token / 2};
  const EdgeTime again = saved.empty() ? EdgeTime() : fit_part(saved, room).time;
  room.per_pack = layer.backward.per_pack - again.per_pack;
  room.per_token = layer.backward.per_token - again.per_token;
  const EdgeTime put_off = fit_part(weights, room).time;
  layer.weight_gradient = put_off;
  layer.elementwise = {std::min(again.per_pack, layer.backward.per_pack - put_off.per_pack),
                       std::min(again.per_token, layer.backward.per_token - put_off.per_token)};
}

/// The time of the products that the policy computes again: its backward, less that of
/// kElementwise, and less the other work that backward_time counts.
EdgeTime fit_products(const Costs& cost, const std::vector<PartTimes>& times, Recompute recompute) {
  Costs without = cost;
  without.kinds.front().again = AgainTimes();
  const PackCost rest = backward_time(without, recompute) + (-1.0) * cost.kinds.front().backward;
  std::vector<BeyondMeasurement> beyond;
  for (const PartTimes& t : times) {
    const double known =
        rest(document(t.size)) + rest.missing_rows(static_cast<double>(t.size.count()));
    beyond.push_back(
        {t.size, t.of(Recompute::kElementwise) + Nanos(std::llround(known)), t.of(recompute)});
  }
  return fit_beyond(beyond);
}

}  // namespace

void measure_backward_parts(Costs& cost, const ProfileOptions& options, const ProfileRank& rank) {
  const std::vector<PartTimes> times = measured_parts(cost, options, rank);
  fit_parts(cost.kinds.front(), times);
  if (times.front().of(Recompute::kFull) == Nanos(0)) return;  // nor the others
  cost.kinds.front().again = {fit_products(cost, times, Recompute::kAttention),
                              fit_products(cost, times, Recompute::kMlp),
                              fit_products(cost, times, Recompute::kFull)};
}

}  // namespace slimpack
