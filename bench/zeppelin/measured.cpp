// Zeppelin's zones, routing and remapping against its baselines, measured: two nodes of four ranks
// in virtual time, whose messages take as long as over the links of a cluster.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "bench/step_model.h"
#include "bench/turns.h"
#include "bench/zeppelin/cases.h"
#include "slimpack/base/file.h"
#include "slimpack/base/median.h"
#include "slimpack/base/random.h"
#include "slimpack/base/table.h"
#include "slimpack/packflow/device/processors.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/planner/replay.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/lower.h"
#include "slimpack/zones/layer_time.h"
#include "slimpack/zones/row_zones.h"
#include "slimpack/zones/zoned_pack.h"

namespace slimpack::bench {
namespace {

constexpr std::int32_t kRanks = 8;
constexpr std::int32_t kRanksPerNode = 4;

struct Options {
  Tokens tokens{16'384};
  std::int64_t layers = 2;
  std::int64_t hidden = 256;
  int repetitions = 3;
  std::uint64_t seed = 1;
  std::string batch;
  std::string json;
};

/// Every query head has a key head of its own, as in the models of the paper.
ModelShape measured_model(const Options& options) {
  ModelShape shape = step_model(options.tokens, options.layers);
  const std::int64_t wider = options.hidden / shape.hidden_size;
  shape.hidden_size *= wider;
  shape.intermediate_size *= wider;
  shape.num_heads *= wider;
  shape.num_kv_heads = shape.num_heads;
  return shape;
}

/// As far from the speed of a core as an A800's links are from its speed (about 200 TFLOP/s,
/// 200 GB/s inside a node and 25 GB/s of each card in bf16; fp32 has twice the bytes).
HardwareSpec links_for(const Costs& cost) {
  const double flops = layer_linear_flops(cost.shape.layer(0), Tokens(1), Pass::kForward).count() /
                       cost.forward.per_token * 1e9;
  HardwareSpec links;
  links.ranks_per_node = links.nics_per_node = kRanksPerNode;
  links.node_link_bytes_per_second = flops / 200e12 * 400e9;
  links.link_bytes_per_second = flops / 200e12 * 50e9;
  return links;
}

/// Documents, and how many times its share of their tokens a rank may hold in attention.
struct Documents {
  std::string name;
  SequenceLengths lengths;
  double room;

  [[nodiscard]] Tokens tokens() const {
    return std::accumulate(lengths.begin(), lengths.end(), Tokens(0));
  }
};

/// `longs` and, up to so many tokens in all, lengths like those of source files.
SequenceLengths with_short_ones(SequenceLengths longs, Tokens tokens, std::uint64_t seed) {
  constexpr std::int64_t kShorter = 8;
  const Tokens left = tokens - std::accumulate(longs.begin(), longs.end(), Tokens(0));
  for (const Tokens length : draw_lengths("github", left * kShorter, seed))
    longs.push_back(std::clamp(length / kShorter, Tokens(1), tokens / 16));
  return longs;
}

/// Documents of which one node has to share the longest, both nodes have to, or one rank may hold
/// each.
std::vector<Documents> batches(const Options& options) {
  const Tokens all = options.tokens;
  return {{"long-tailed", with_short_ones({all / 2}, all, options.seed), 1.25},
          {"one long", with_short_ones({all * 3 / 4}, all, options.seed), 1.25},
          {"two local", with_short_ones({all / 4, all / 4}, all, options.seed), 2.2}};
}

/// A way to share the batch between the ranks.
struct Method {
  std::string name;
  ContextParallel context;
  Zones zones;
  bool remap = false;
};

ZonedLayer zoned_layer(const Costs& cost) {
  const auto keys =
      static_cast<double>(cost.shape.layer(0).k_width() + cost.shape.layer(0).v_width()) *
      static_cast<double>(element_bytes(cost.dtype));
  return {.cost = cost.forward, .ring_bytes = keys};
}

std::vector<Method> methods(const Documents& documents, const Costs& cost,
                            const HardwareSpec& hardware) {
  const SequenceLengths& lengths = documents.lengths;
  const LinkMap links = link_map(hardware);
  const double share = static_cast<double>(documents.tokens().count()) / kRanks;
  const ZoneProblem problem{kRanks, links,
                            Tokens(static_cast<std::int64_t>(documents.room * share))};
  const Zones whole(lengths.size(), {0, kRanks});
  const auto zeppelin = [&](bool route) {
    return zeppelin_zones(lengths, problem, zone_crossovers(links, zoned_layer(cost), route));
  };
  constexpr auto kRing = CpCommType::kP2P;
  return {{"1 ring", {kRing}, whole},
          {"gather", {CpCommType::kAllGather}, whole},
          {"hybrid", {kRing}, hybrid_zones(lengths, problem, problem.rank_tokens)},
          {"long", {kRing}, long_zones(lengths, problem)},
          {"+route", {kRing, true}, whole},
          {"+zones", {kRing}, zeppelin(false)},
          {"+both", {kRing, true}, zeppelin(true)},
          {"zeppelin", {kRing, true}, zeppelin(true), true},
          {"direct", {CpCommType::kDirect, true}, zeppelin(true), true}};
}

/// All ranks run all sequences as one MicroPack.
RatedPlan planned(const Method& method, const SequenceLengths& lengths, const Costs& cost) {
  RatedPlan step;
  step.plan.lengths = lengths;
  step.plan.layout = balanced_layout(cost, lengths, 1);
  Zones rows;
  if (method.remap)
    rows = row_zones(lengths, method.zones, LinkMap{.ranks_per_node = kRanksPerNode}, kRanks);
  const MicroPack pack = zoned_pack(lengths, all_sequences(lengths), kRanks, method.zones, rows);
  for (std::int32_t r = 0; r < kRanks; ++r) {
    step.plan.replicas.push_back({all_sequences(lengths), {{pack}, {pack}}});
    step.schedules.push_back(one_f_one_b(step.plan.replicas.back().packs, 1));
  }
  require_valid_plan(step.plan, method.name);
  step.lowered = lower(step.plan, step.schedules);
  step.prediction = predict(step, cost);
  return step;
}

Costs measured_costs(const Options& options, CpCommType type) {
  return profile_costs({.shape = measured_model(options),
                        .context = options.tokens,
                        .ranks = processors(),
                        .most_merged = kRanks,
                        .cp_comm_type = type,
                        .clock = ClockKind::kVirtual});
}

class Measurement {
 public:
  explicit Measurement(const Options& options) : options_(options) {
    for (const CpCommType type : {CpCommType::kDirect, CpCommType::kP2P, CpCommType::kAllGather})
      costs_.emplace(type, measured_costs(options, type));
    links_ = links_for(costs_.at(CpCommType::kDirect));
  }

  /// Runs all ways in turn and prints their table; returns it for JSON.
  [[nodiscard]] nlohmann::json run(const Documents& documents) const {
    const Costs& alone = costs_.at(CpCommType::kDirect);
    std::vector<std::unique_ptr<Engine>> engines;
    std::vector<Way> ways;
    std::vector<Costs> costs;
    for (const Method& method : methods(documents, alone, links_)) {
      costs.push_back(
          with_links(costs_.at(method.context.type), links_, kRanks, 1, method.context));
      ways.push_back({method.name, nullptr, planned(method, documents.lengths, costs.back())});
      engines.push_back(engine(method, ways.back().planned.plan.layout));
      ways.back().engine = engines.back().get();
    }
    run_in_turn(ways, make_step_tokens(random_bytes(documents), alone.shape.vocab_size),
                TrainConfig(), options_.repetitions);
    return print(documents, ways, costs);
  }

 private:
  [[nodiscard]] std::unique_ptr<Engine> engine(const Method& method,
                                               const StageLayout& layout) const {
    return std::make_unique<Engine>(
        EngineOptions{.shape = measured_model(options_),
                      .layout = layout,
                      .replicas = kRanks,
                      .context = options_.tokens,
                      .clock = ClockKind::kVirtual,
                      .cp_comm_type = method.context.type,
                      .links = LinkUse{link_map(links_), method.context.route},
                      .should_stop = {}});
  }

  [[nodiscard]] std::vector<std::vector<std::int64_t>> random_bytes(
      const Documents& documents) const {
    Rng rng(options_.seed);
    std::vector<std::vector<std::int64_t>> all;
    for (const Tokens length : documents.lengths)
      for (all.emplace_back(); std::ssize(all.back()) < length.count();)
        all.back().push_back(static_cast<std::int64_t>(rng.below(256)));
    return all;
  }

  [[nodiscard]] static nlohmann::json print(const Documents& documents,
                                            const std::vector<Way>& ways,
                                            const std::vector<Costs>& costs) {
    Table table(
        {{"way", Align::kLeft}, {"step"}, {"replayed"}, {"off by"}, {"predicted"}, {"× 1 ring"}});
    nlohmann::json json;
    for (const Tokens length : documents.lengths) json["lengths"].push_back(length.count());
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double seconds = median(ways[i].all_seconds());
      const double replayed =
          to_seconds(replay(ways[i].planned, costs[i], ways[i].timelines()).makespan);
      const double predicted = to_seconds(ways[i].planned.prediction.makespan);
      const double speedup = median(by_turn(ways.front().all_seconds(), ways[i].all_seconds()));
      table.add_row({ways[i].name, fmt::format("{:.2f} s", seconds),
                     fmt::format("{:.2f} s", replayed),
                     fmt::format("{:+.1f}%", 100 * (replayed / seconds - 1)),
                     fmt::format("{:.2f} s", predicted), fmt::format("{:.2f}", speedup)});
      json["ways"].push_back({{"name", ways[i].name},
                              {"seconds", ways[i].all_seconds()},
                              {"replayed", replayed},
                              {"predicted", predicted},
                              {"speedup", speedup}});
    }
    fmt::print("{}: {} documents, {} tokens, the longest {}\n\n{}\n", documents.name,
               documents.lengths.size(), documents.tokens().count(),
               std::ranges::max(documents.lengths).count(), table.text());
    std::fflush(stdout);
    return json;
  }

  Options options_;
  std::map<CpCommType, Costs> costs_;
  HardwareSpec links_;
};

void run(const Options& options) {
  const Measurement measurement(options);
  nlohmann::json json;
  for (const Documents& documents : batches(options))
    if (options.batch.empty() || options.batch == documents.name)
      json[documents.name] = measurement.run(documents);
  if (!options.json.empty()) write_file(options.json, json.dump(1) + "\n");
}

}  // namespace
}  // namespace slimpack::bench

int main(int argc, char** argv) {
  slimpack::bench::Options options;
  CLI::App app{
      "Zeppelin's zones, routing and remapping in virtual time: two nodes of four ranks, whose "
      "messages take as long as over links.",
      "zeppelin_measured"};
  std::int64_t tokens = options.tokens.count();
  app.add_option("--tokens", tokens, "of the batch (default 16384)")
      ->check(CLI::Range(1024, 1 << 20));
  app.add_option("--layers", options.layers, "of the model (default 2)")->check(CLI::Range(1, 64));
  app.add_option("--hidden", options.hidden, "size, 256 (default), 512, 768 or 1024")
      ->check(CLI::IsMember({256, 512, 768, 1024}));
  app.add_option("--repetitions", options.repetitions, "of each way, in turn (default 3)")
      ->check(CLI::Range(1, 100));
  app.add_option("--batch", options.batch, "one of: long-tailed, one long, two local (default all)")
      ->check(CLI::IsMember({"long-tailed", "one long", "two local"}));
  app.add_option("--seed", options.seed, "of the lengths (default 1)");
  app.add_option("--json", options.json, "write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] {
    options.tokens = slimpack::Tokens(tokens);
    slimpack::bench::run(options);
  });
}
