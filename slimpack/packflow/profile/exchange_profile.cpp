#include "slimpack/packflow/profile/exchange_profile.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "slimpack/cost/fit.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile_ranks.h"
#include "slimpack/packflow/stores/host_rows.h"

namespace slimpack {
namespace {

/// One way of a message between two waiting threads, from round trips. Nothing is copied, so the
/// size does not matter.
double hand_over_time() {
  constexpr int kRoundTrips = 200;
  return on_profile_ranks<double>({.stages = 2}, ProfileThreads{}, [](const ProfileRank& rank) {
    const at::Tensor message = at::zeros({1});
    const bool first = rank.place().stage.value() == 0;
    const Nanos taken = rank.time_of([&] {
      for (int i = 0; i < kRoundTrips; ++i) {
        if (first) rank.communicator().send(Direction::kForward, message);
        static_cast<void>(
            rank.communicator().receive(first ? Direction::kBackward : Direction::kForward));
        if (!first) rank.communicator().send(Direction::kBackward, message);
      }
    });
    return static_cast<double>(taken.count()) / (2 * kRoundTrips);
  });
}

/// Of gradients over two replicas: either adds up half of the bytes, as it would in a ring.
EdgeTime reduction_time(const ProfileOptions& options) {
  return on_profile_ranks<EdgeTime>(
      {.stages = 1, .replicas = 2}, options.threads(), [&](const ProfileRank& rank) {
        std::vector<EdgeMeasurement> times;
        Collective& data = rank.communicator().data();
        for (const std::int64_t elements : {1 << 12, 1 << 16, 1 << 20}) {
          const at::Tensor gradients_N = at::zeros({elements}, options.device);
          const Nanos time = rank.fastest_of_three([&] {
            data.shards().start_reduce_scatter(gradients_N);
            data.shards().finish_reduce_scatter();
          });
          const auto sent = static_cast<std::int64_t>(gradients_N.nbytes() / 2);
          times.push_back({Tokens(sent), time});
        }
        return fit_edge_time(times).time;
      });
}

/// The share of a group's member in `alone`, what one replica took for the whole MicroPack: every
/// member has the whole overhead, and the rest in equal parts.
Nanos share_of(Nanos alone, const PackCost& layer, std::int32_t group) {
  const auto time = static_cast<double>(alone.count());
  const double overhead = std::min(layer.per_pack + layer.per_slice, time);
  return Nanos(static_cast<std::int64_t>(overhead + (time - overhead) / group));
}

/// A hundredth of the pass if noise hides it altogether: a planner would merge everything if
/// merging were free.
EdgeTime exchange_time(const std::vector<MergedMeasurement>& measured) {
  const EdgeTime fitted = fit_exchange(measured);
  if (fitted != EdgeTime()) return fitted;
  std::vector<EdgeMeasurement> little;
  for (const MergedMeasurement& m : measured) little.push_back({m.tokens, m.time / 100 + Nanos(1)});
  return fit_edge_time(little).time;
}

/// Every MicroPack is run by each member alone, too, in turn with the group: what a group takes
/// beyond the shares (the exchange, and what shorter queries and keys lose in the kernels) is far
/// less than what a shared machine's speed changes from one minute to the next.
MergeTime merge_time(const ProfileOptions& options, const Costs& cost, std::int32_t group) {
  const RankGrid grid{.stages = 1, .replicas = group, .tensor = options.tp};
  return on_profile_ranks<MergeTime>(grid, options.threads(), [&](const ProfileRank& rank) {
    PartBench bench(options, rank, PartBench::Part::kLayer);
    std::vector<ProfilePoint> points;  // each alone, then merged
    for (const std::int64_t tokens : {256, 1024, 2048}) {
      const Tokens own = std::min(Tokens(tokens), options.context);
      for (const Tokens prefix : {Tokens(0), (options.context - own) / 2})
        for (const std::int32_t replicas : {1, group}) points.push_back({own, prefix, 1, replicas});
    }
    const std::vector<RepeatedTimes> times = bench.measure(points, options.budget / 40);
    std::vector<MergedMeasurement> forward, backward;
    for (std::size_t i = 0; i < points.size(); i += 2) {
      const PassTimes &alone = times[i], &merged = times[i + 1];
      const Tokens tokens = points[i].tokens;
      forward.push_back({tokens, share_of(alone.forward, cost.forward, group), merged.forward});
      backward.push_back({tokens, share_of(alone.backward, cost.backward, group), merged.backward});
    }
    return MergeTime{exchange_time(forward), exchange_time(backward)};
  });
}

/// Of a byte to pinned host memory or back, whichever takes longer; all ranks at once.
double host_time(const ProfileOptions& options) {
  if (options.device.is_cpu()) return 0;
  constexpr std::int64_t kNumbers = 1 << 24;
  return on_profile_ranks<double>(options.grid(), options.threads(), [&](const ProfileRank& rank) {
    HostRows host(options.device);
    LayerRows rows, none, there;
    rows.x_TH = at::zeros({kNumbers}, options.device);
    none.x_TH = at::zeros({0}, options.device);
    const Nanos out = rank.fastest_of_three([&] {
      there = host.send(rows);
      host.settle();
    });
    RowParts parts;
    parts.front() = {there.x_TH};
    const Nanos back = rank.fastest_of_three([&] {
      host.fetch(parts, none);
      static_cast<void>(host.take());
    });
    return static_cast<double>(std::max(out, back).count()) /
           static_cast<double>(rows.x_TH.nbytes());
  });
}

}  // namespace

void measure_exchanges(const ProfileOptions& options, Costs& cost) {
  cost.transfer_latency = options.clock == ClockKind::kWall ? hand_over_time() : 0;
  cost.host_per_byte = host_time(options);
  const EdgeTime reduction = reduction_time(options);
  cost.reduce_latency = reduction.per_pack;
  cost.reduce_per_byte = reduction.per_token;
  for (std::int32_t group = 2; group <= options.most_merged; group *= 2)
    cost.merge.push_back(merge_time(options, cost, group));
}

}  // namespace slimpack
