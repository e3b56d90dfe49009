#include "slimpack/packflow/profile/profile_parts.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "slimpack/cost/fit.h"
#include "slimpack/cost/gpu_memory.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/reduction.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile_ranks.h"
#include "slimpack/packflow/stores/host_rows.h"

namespace slimpack {
namespace {

/// One way of a message of so many bytes between two neighbouring stages, from round trips: the
/// mean over all such stages, of which every second pair talks at a time.
Nanos message_time(const ProfileOptions& options, const ProfileRank& rank, std::int64_t bytes,
                   int round_trips) {
  const auto type = tensor_options(options);
  const MessageForm form{1, bytes / static_cast<std::int64_t>(type.dtype().itemsize()), type};
  const at::Tensor message = at::zeros({form.rows, form.width}, type);
  Communicator& peers = rank.communicator();
  const std::int32_t own = rank.place().pipeline;
  Nanos taken(0);
  for (const std::int32_t parity : {0, 1}) {
    const bool first = own % 2 == parity;
    const std::int32_t other = first ? own + 1 : own - 1;
    const bool talks = other >= 0 && other < rank.grid().pipeline;
    const Inbox there{first ? Direction::kForward : Direction::kBackward, StageId(other)};
    const Inbox back{first ? Direction::kBackward : Direction::kForward, StageId(own)};
    const Nanos time = rank.time_of([&] {
      for (int i = 0; talks && i < round_trips; ++i) {
        if (first) peers.send(there, message);
        peers.post_receive(back, form);
        static_cast<void>(peers.receive(back));
        if (!first) peers.send(there, message);
      }
    });
    if (talks && first) taken = taken + time;
  }
  // Only the first rank of a pair has a time.
  const std::int32_t ranks = rank.grid().pipeline;
  const double mean = rank.mean(static_cast<double>(taken.count())) * ranks / (ranks - 1);
  return std::max(Nanos(1), Nanos(static_cast<std::int64_t>(mean / (2 * round_trips))));
}

/// The time of a message to the next stage, fitted to the bytes that a rank sends.
EdgeTime transfer_between(const ProfileOptions& options, const ProfileRank& rank) {
  std::vector<EdgeMeasurement> times;
  for (const std::int64_t bytes : {1 << 12, 1 << 20, 1 << 24}) {
    static_cast<void>(message_time(options, rank, bytes, 1));  // warms up
    Nanos fastest = message_time(options, rank, bytes, 4);
    for (int i = 0; i < 2; ++i) fastest = std::min(fastest, message_time(options, rank, bytes, 4));
    times.push_back({Tokens(bytes), fastest});
  }
  return fit_edge_time(times).time;
}

void measure_transfers(const ProfileOptions& options, Costs& cost) {
  cost.transfer.latency = cost.transfer.per_byte = 0;
  if (!options.job) {
    if (options.clock == ClockKind::kVirtual) return;
    // Nothing is copied between threads, so the size does not matter.
    const std::vector<double> time = options.figures_of("transfers", true, [&] {
      const auto taken = on_profile_ranks<Nanos>(
          {.pipeline = 2}, options.threads(),
          [&](const ProfileRank& rank) { return message_time(options, rank, 64, 200); });
      return std::vector<double>{static_cast<double>(taken.count())};
    });
    cost.transfer.latency = time.at(0);
  } else if (options.grid().pipeline > 1) {
    const auto time = on_profile_ranks<EdgeTime>(
        options.grid(), options.threads(),
        [&](const ProfileRank& rank) { return transfer_between(options, rank); });
    cost.transfer.latency = time.per_pack;
    cost.transfer.per_byte = time.per_token / options.tp;  // each rank sends its share
  }
}

/// The time to sum gradients over the replicas, fitted to the bytes that a rank sends.
EdgeTime reduction_time(const ProfileOptions& options, const RankGrid& grid) {
  return on_profile_ranks<EdgeTime>(grid, options.threads(), [&](const ProfileRank& rank) {
    std::vector<EdgeMeasurement> times;
    Collective& data = rank.communicator().data();
    std::vector<std::int64_t> sizes{1 << 12, 1 << 16, 1 << 20};
    if (options.job) sizes.push_back(1 << 23);
    for (const std::int64_t elements : sizes) {
      const at::Tensor gradients_N = at::zeros({elements}, options.device);
      const Nanos fastest = rank.fastest_of_three([&] {
        data.shards().start_reduce_scatter(gradients_N);
        data.shards().finish_reduce_scatter();
      });
      const auto bytes = static_cast<std::int64_t>(gradients_N.nbytes());
      times.push_back({Tokens(bytes / grid.replicas * (grid.replicas - 1)), fastest});
    }
    return fit_edge_time(times).time;
  });
}

void measure_reduction(const ProfileOptions& options, Costs& cost) {
  const RankGrid grid = options.job ? options.grid() : RankGrid{.replicas = 2};
  cost.reduction.latency = cost.reduction.per_byte = 0;
  if (grid.replicas == 1) return;
  const std::vector<double> time = options.figures_of("reduction", true, [&] {
    const EdgeTime found = reduction_time(options, grid);
    return std::vector<double>{found.per_pack, found.per_token};
  });
  cost.reduction.latency = time.at(0) / reduction_rounds({.replicas = grid.replicas});
  cost.reduction.per_byte = time.at(1);
}

constexpr std::array kMergedSizes{Tokens(256), Tokens(1024), Tokens(2048)};

/// The share of a group's member in `alone`, what one replica took for the whole MicroPack: every
/// member has the whole overhead, and the rest in equal parts.
Nanos share_of(Nanos alone, const PackCost& layer, std::int32_t group) {
  const auto time = static_cast<double>(alone.count());
  const double overhead = std::min(layer.per_pack + layer.per_slice, time);
  return Nanos(static_cast<std::int64_t>(overhead + (time - overhead) / group));
}

/// A hundredth of the pass if noise hides it altogether: a planner would merge everything if
/// merging were free.
EdgeTime exchange_time(const std::vector<BeyondMeasurement>& measured) {
  const EdgeTime fitted = fit_beyond(measured);
  if (fitted != EdgeTime()) return fitted;
  std::vector<EdgeMeasurement> little;
  for (const BeyondMeasurement& m : measured) little.push_back({m.tokens, m.time / 100 + Nanos(1)});
  return fit_edge_time(little).time;
}

TravelWidths travel_widths(const ProfileOptions& options) {
  LayerWidths widths(options.shape, 0, options.dtype, options.tp);
  widths.runtime.comm = options.cp_comm_type;
  return widths.travel();
}

double key_share(const TravelWidths& widths, bool backward) {
  return static_cast<double>(widths.key_bytes(backward)) /
         static_cast<double>(widths.query_bytes(backward));
}

/// The queries with as many bytes as what travels.
Tokens travelling(const ProfilePoint& point, const TravelWidths& widths, bool backward) {
  const auto keys = static_cast<double>((point.prefix + point.tokens).count());
  const Tokens as_queries(std::llround(key_share(widths, backward) * keys));
  return widths.type == CpCommType::kDirect ? std::min(point.tokens, as_queries) : as_queries;
}

/// Every MicroPack is run by each member alone, too, in turn with the group: what a group takes
/// beyond the shares (the exchange, and what shorter queries and keys lose in the kernels) is far
/// less than what a shared machine's speed changes from one minute to the next.
MergeTime merge_time(const ProfileOptions& options, const LayerCosts& cost, std::int32_t group) {
  const RankGrid threads{.replicas = group, .tensor = options.tp};
  const RankGrid grid = options.job ? options.grid() : threads;
  return on_profile_ranks<MergeTime>(grid, options.threads(), [&](const ProfileRank& all) {
    // The last replicas may be too few for a group. They run alone, and do not count.
    const bool in_group = all.place().replica.value() / group < grid.replicas / group;
    const ProfileRank rank = in_group ? all : all.uncounted();
    PartBench bench(options, rank, PartBench::Part::kLayer);
    std::vector<ProfilePoint> points;  // each alone, then merged
    for (const Tokens own : linear_sizes(options, kMergedSizes))
      for (const Tokens prefix : {Tokens(0), (options.context - own) / 2})
        for (const std::int32_t replicas : {1, in_group ? group : 1})
          points.push_back({own, prefix, 1, replicas});
    const std::vector<RepeatedTimes> times = bench.measure(points, options.budget / 40);
    const TravelWidths widths = travel_widths(options);
    std::vector<BeyondMeasurement> forward, backward;
    for (std::size_t i = 0; i < points.size(); i += 2) {
      const PassTimes &alone = times[i], &merged = times[i + 1];
      forward.push_back({travelling(points[i], widths, false),
                         share_of(alone.forward, cost.forward, group), merged.forward});
      backward.push_back({travelling(points[i], widths, true),
                          share_of(alone.backward, cost.backward, group), merged.backward});
    }
    return MergeTime{exchange_time(forward), exchange_time(backward)};
  });
}

/// Rows that travel take `per_query` nanoseconds for a query, and for a key as many as its bytes
/// take. Measured times leave out what attention hides.
Travel travel(double per_query, const TravelWidths& widths, bool backward) {
  const double per_key = key_share(widths, backward) * per_query;
  return {widths.type == CpCommType::kDirect ? per_query : Travel::kNever, per_key};
}

/// The kept figures of merge_time, or new ones. Their time per token is that of a query that
/// travels.
MergeTime kept_merge_time(const ProfileOptions& options, const LayerCosts& cost,
                          std::int32_t group) {
  const std::vector<double> f = options.figures_of(fmt::format("merged over {}", group), true, [&] {
    const MergeTime time = merge_time(options, cost, group);
    return std::vector<double>{time.forward.per_pack, time.forward.per_token,
                               time.backward.per_pack, time.backward.per_token};
  });
  const TravelWidths widths = travel_widths(options);
  return {.forward = {.per_pack = f.at(0)},
          .backward = {.per_pack = f.at(2)},
          .forward_travel = travel(f.at(1), widths, false),
          .backward_travel = travel(f.at(3), widths, true)};
}

/// The time to copy a byte to pinned host memory or back, whichever takes longer, in nanoseconds.
double host_time(const ProfileOptions& options, const ProfileRank& rank) {
  constexpr std::int64_t kNumbers = 1 << 24;
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
  return static_cast<double>(std::max(out, back).count()) / static_cast<double>(rows.x_TH.nbytes());
}

/// The bytes of memory that the machine has left for each rank: each of the threads here, or each
/// process, one for each GPU.
double host_bytes_of_a_rank(const ProfileOptions& options) {
  const std::int64_t ranks = options.job ? std::max<std::int64_t>(1, device_count(options.device))
                                         : options.grid().ranks();
  return static_cast<double>(available_memory().count()) / static_cast<double>(ranks);
}

/// All ranks at once. REQUIRES: no CPU.
void measure_host(const ProfileOptions& options, Costs& cost) {
  const std::vector<double> figures = options.figures_of("host memory", true, [&] {
    return on_profile_ranks<std::vector<double>>(
        options.grid(), options.threads(), [&](const ProfileRank& rank) {
          const double bytes = rank.mean(host_bytes_of_a_rank(options));
          return std::vector<double>{host_time(options, rank), bytes};
        });
  });
  cost.host.per_byte = figures.at(0);
  cost.host.memory = pinnable(Bytes(static_cast<std::int64_t>(figures.at(1))));
}

}  // namespace

void measure_exchanges(const ProfileOptions& options, Costs& cost) {
  measure_transfers(options, cost);
  if (!options.device.is_cpu()) measure_host(options, cost);
  measure_reduction(options, cost);
  for (std::size_t kind = 0; kind < options.shape.kinds.size(); ++kind) {
    const ProfileOptions own = options.of_kind(kind);
    LayerCosts& layer = cost.kinds[kind];
    for (std::int32_t group = 2; group <= options.most_merged; group *= 2)
      layer.merge.push_back(kept_merge_time(own, layer, group));
  }
}

}  // namespace slimpack
