#include "tests/conformance/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/support/any_of.h"

namespace slimpack::conformance {
namespace {

using testing::any_of;

/// Below which a standard normal variable is with this probability.
double normal_quantile(double probability) {
  double low = -6;
  double high = 6;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2)) / 2 < probability ? low : high) = middle;
  }
  return low;
}

enum class Lengths : std::uint8_t { kEqual, kLogNormal, kPareto, kBimodal };

constexpr int kQuantiles = 1000;

/// The length, in granules, at `quantile` of kQuantiles: longer ones at higher ones, so that it
/// shrinks as its quantile does.
double length_at(Lengths kind, int quantile, double longest) {
  const double u = (quantile + 0.5) / kQuantiles;
  switch (kind) {
    case Lengths::kEqual:
      return longest * u * u;
    case Lengths::kLogNormal:
      return 1.5 * std::exp(1.2 * normal_quantile(u));
    case Lengths::kPareto:
      return 0.5 * std::pow(1 - u, -1 / 0.9);
    case Lengths::kBimodal:
      return u < 0.8 ? 1.5 * u / 0.8 : longest * (0.8 + (u - 0.8));
  }
  return 0;
}

SequenceLengths drawn_lengths(Lengths kind, Tokens granularity, const Extent& extent) {
  auto quantiles =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(any_of(0, kQuantiles - 1)));
  quantiles.resize(std::min(quantiles.size(), extent.sequences));
  SequenceLengths lengths;
  for (const int quantile : quantiles) {
    const auto longest = static_cast<double>(extent.longest);
    const double granules =
        length_at(kind, kind == Lengths::kEqual ? quantiles.front() : quantile, longest);
    lengths.emplace_back(static_cast<std::int64_t>(
        std::ceil(std::min(granules, longest) * static_cast<double>(granularity.count()))));
  }
  return lengths;
}

/// 1, then alternately slower and faster, up to 2.4 times for 15.
double speed_of(int number) {
  return std::exp2((number % 2 == 0 ? -number : number) / 12.0);
}

Workload drawn(const Extent& extent) {
  constexpr std::pair<Lengths, const char*> kLengths[] = {{Lengths::kEqual, "equal"},
                                                          {Lengths::kLogNormal, "log-normal"},
                                                          {Lengths::kPareto, "Pareto"},
                                                          {Lengths::kBimodal, "bimodal"}};
  constexpr std::pair<CostKind, const char*> kCosts[] = {{CostKind::kCompute, "compute"},
                                                         {CostKind::kOverhead, "overhead"},
                                                         {CostKind::kLinks, "links"}};
  const auto [lengths, lengths_name] = kLengths[*any_of(0, 3)];
  const auto [costs, costs_name] = kCosts[*any_of(0, 2)];
  Workload workload;
  workload.kind = fmt::format("{} lengths, most time in {}", lengths_name, costs_name);
  workload.cost = cost_of(costs);
  workload.granularity = Tokens(*rc::gen::element(1, 3, 16, 64));
  workload.lengths = drawn_lengths(lengths, workload.granularity, extent);
  workload.context =
      *std::max_element(workload.lengths.begin(), workload.lengths.end()) * *any_of(1, 3);
  workload.pp = *any_of(1, 8);
  workload.dp = *any_of(1, 8);
  if (workload.pp > 1 && workload.pp <= 4) workload.stages_per_rank = *any_of(1, 8 / workload.pp);
  workload.uneven = *any_of(0, 2) == 2;
  const auto speeds = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(workload.pp * workload.dp), any_of(0, 15));
  for (std::int32_t r = 0; r < workload.dp; ++r) {
    auto& of_replica = workload.speed.emplace_back();
    for (std::int32_t s = 0; s < workload.pp; ++s)
      of_replica.push_back(speed_of(speeds[static_cast<std::size_t>(r * workload.pp + s)]));
  }
  return workload;
}

}  // namespace

Costs cost_of(CostKind kind) {
  Decoder shape;
  shape.kinds = {{.hidden_size = 64,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 16,
                  .value_dim = 16,
                  .dense_width = 176}};
  shape.set_layers(8);
  shape.vocab_size = 257;
  shape.max_positions = Tokens(1 << 20);
  HardwareSpec hardware;
  hardware.linear_flops = 1e11;
  hardware.attention_forward_flops = 5e10;
  hardware.attention_backward_flops = 4e10;
  hardware.forward_overhead_us = hardware.backward_overhead_us =
      kind == CostKind::kOverhead ? 500 : 2;
  if (kind != CostKind::kOverhead) hardware.linear_half_rows = 0;
  if (kind == CostKind::kLinks)
    hardware.node_link_bytes_per_second = hardware.link_bytes_per_second = 1e8;
  // Rows of 2,448 bytes a token either stay or take longer than a layer, which runs for 0.9 us.
  hardware.host_bandwidth = kind == CostKind::kCompute ? 0 : 1e9;
  return cost_from_hardware(shape, Dtype::kFp32, hardware, 1, 8);
}

void showValue(const Workload& workload, std::ostream& out) {
  std::vector<std::int64_t> lengths;
  for (const Tokens length : workload.lengths) lengths.push_back(length.count());
  out << fmt::format("{}: {} tokens, granularity {}, context {}, pp {} × {}, dp {}, {} speeds {}",
                     workload.kind, lengths, workload.granularity.count(), workload.context.count(),
                     workload.pp, workload.stages_per_rank, workload.dp,
                     workload.uneven ? "known" : "unknown", workload.speed);
}

rc::Gen<Workload> workloads(const Extent& extent) {
  return rc::gen::exec([extent] { return drawn(extent); });
}

}  // namespace slimpack::conformance
