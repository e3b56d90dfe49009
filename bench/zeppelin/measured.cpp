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
#include "bench/real_steps.h"
#include "bench/turns.h"
#include "bench/zeppelin/cases.h"
#include "bench/zeppelin/methods.h"
#include "slimpack/base/file.h"
#include "slimpack/base/median.h"
#include "slimpack/base/random.h"
#include "slimpack/base/table.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/planner/replay.h"
#include "slimpack/schedule/lowered_schedule.h"

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
  std::string links = "flops";
  std::vector<std::string> ways;  ///< all if empty
  std::string json;

  [[nodiscard]] bool has(const std::string& way) const {
    return ways.empty() || std::ranges::find(ways, way) != ways.end();
  }
};

/// Every query head has a key head of its own, as in the models of the paper.
Decoder measured_model(const Options& options) {
  Decoder shape = step_model(options.tokens, options.layers);
  const std::int64_t wider = options.hidden / shape.hidden_size();
  shape.kinds[0].hidden_size *= wider;
  shape.kinds[0].dense_width *= wider;
  shape.kinds[0].num_heads *= wider;
  shape.kinds[0].num_kv_heads = shape.kinds[0].num_heads;
  return shape;
}

/// A core's share of an A800's speed, by FLOPs: about 200 TFLOP/s in bf16; fp32 has twice the
/// bytes.
double speed_by_flops(const Costs& cost) {
  const double flops = layer_linear_flops(cost.shape.kinds[0], Tokens(1), Pass::kForward).count() /
                       cost.kinds.front().forward.per_token * 1e9;
  return flops / 200e12 * 2;
}

/// Bytes of a layer's output for each nanosecond that its products take.
double bytes_of_products(const Costs& cost) {
  const auto bytes = static_cast<double>(cost.shape.hidden_size() * element_bytes(cost.dtype));
  return bytes / cost.kinds.front().forward.per_token;
}

/// A core's share by rows of a layer, against rows of the 7B model: moving one takes as large a
/// part of the time of its products. Keys grow with a row, and its pairs relative to its products
/// with tokens ÷ hidden. So the step is one of that model whose documents are as many times as long
/// as its rows are wide.
double speed_by_7b_rows(const Costs& cost) {
  const HardwareSpec cluster = zeppelin_clusters().front().hardware;
  const Costs large = cost_from_hardware(zeppelin_models().at(1).shape, Dtype::kBf16, cluster);
  return bytes_of_products(cost) / bytes_of_products(large);
}

/// Links as far from the speed of a core as an A800's links are from its speed: 200 GB/s inside a
/// node, 25 GB/s of each card.
HardwareSpec links_for(const Costs& cost, const std::string& kind) {
  const double speed = kind == "7b" ? speed_by_7b_rows(cost) : speed_by_flops(cost);
  HardwareSpec links;
  links.ranks_per_node = links.nics_per_node = kRanksPerNode;
  links.node_link_bytes_per_second = speed * 200e9;
  links.link_bytes_per_second = speed * 25e9;
  return links;
}

/// Documents, and how many of their tokens a rank may hold in attention.
struct Documents {
  std::string name;
  SequenceLengths lengths;
  Tokens rank_tokens;

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

/// Three kinds of documents: one node has to share the longest; both nodes have to; or the longest
/// two stay on one rank each, because a ring would wait for its messages.
std::vector<Documents> batches(const Options& options, const ZoneCrossovers& crossovers) {
  const Tokens all = options.tokens;
  const Tokens local = std::min(all / 4, crossovers.node - Tokens(1));
  const auto documents = [&](std::string name, SequenceLengths longs, Tokens rank_tokens) {
    return Documents{std::move(name), with_short_ones(std::move(longs), all, options.seed),
                     rank_tokens};
  };
  const Tokens quarter_more = all * 5 / 4 / kRanks;
  return {documents("long-tailed", {all / 2}, quarter_more),
          documents("one long", {all * 3 / 4}, quarter_more),
          documents("two local", {local, local}, std::max(quarter_more, local * 11 / 10))};
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
  explicit Measurement(const Options& options)
      : options_(options), links_(links_for(costs_of(CpCommType::kP2P), options.links)) {}

  /// Without routing.
  [[nodiscard]] ZoneCrossovers crossovers() {
    return crossovers_of({kRanks, link_map(links_), {}}, linked_costs({CpCommType::kP2P}));
  }

  /// Runs the ways in turn and prints their table; returns it for JSON.
  [[nodiscard]] nlohmann::json run(const Documents& documents) {
    const Costs& alone = costs_of(CpCommType::kP2P);
    std::vector<std::unique_ptr<Engine>> engines;
    std::vector<Way> ways;
    std::vector<Costs> costs;
    const ZoneProblem problem{kRanks, link_map(links_), documents.rank_tokens};
    for (const Method& method : zeppelin_methods()) {
      // Rings of the best size: the best has to be known.
      if (!options_.has(method.name) || method.sharing == Sharing::kRings) continue;
      costs.push_back(linked_costs(method.context));
      const Zones zones = zones_of(method, documents.lengths, problem, costs.back()).front();
      RatedPlan step = one_pack_step(method, zones, documents.lengths, problem, costs.back());
      std::vector<LoweredSchedule> lowered = lower(step.plan, step.schedules);
      ways.push_back({method.name, nullptr, {std::move(step), std::move(lowered)}});
      engines.push_back(engine(method, ways.back().planned.plan.layout));
      ways.back().engine = engines.back().get();
    }
    run_in_turn(ways, make_step_tokens(random_bytes(documents), alone.shape.vocab_size),
                TrainConfig(), options_.repetitions);
    return print(documents, ways, costs);
  }

 private:
  [[nodiscard]] Costs linked_costs(const ContextParallel& context) {
    return with_links(costs_of(context.type), links_, kRanks, 1, context);
  }

  /// Measured when they are first needed.
  const Costs& costs_of(CpCommType type) {
    auto found = costs_.find(type);
    if (found == costs_.end()) found = costs_.emplace(type, measured_costs(options_, type)).first;
    return found->second;
  }

  [[nodiscard]] std::unique_ptr<Engine> engine(const Method& method,
                                               const StageLayout& layout) const {
    return std::make_unique<Engine>(
        EngineOptions{.shape = measured_model(options_),
                      .layout = layout,
                      .replicas = kRanks,
                      .context = options_.tokens,
                      .clock = ClockKind::kVirtual,
                      .cp_comm_type = method.context.type,
                      .links = LinkUse{link_map(links_), method.context.route}});
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
    Table table({{"way", Align::kLeft},
                 {"step"},
                 {"replayed"},
                 {"off by"},
                 {"predicted"},
                 {fmt::format("× {}", ways.front().name)}});
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
  Measurement measurement(options);
  nlohmann::json json;
  for (const Documents& documents : batches(options, measurement.crossovers()))
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
  std::vector<std::string> names;
  for (const auto& method : slimpack::bench::zeppelin_methods()) names.push_back(method.name);
  app.add_option("--ways", options.ways, "to compare, with commas (default all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option(
         "--links", options.links,
         "an A800's, slowed by a core's FLOP/s (flops, default), or so that a row costs as much of "
         "its products' time as in a 7B model (7b)")
      ->check(CLI::IsMember({"flops", "7b"}));
  app.add_option("--seed", options.seed, "of the lengths (default 1)");
  app.add_option("--json", options.json, "write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] {
    options.tokens = slimpack::Tokens(tokens);
    slimpack::bench::run(options);
  });
}
