// Zeppelin's zones, routing and remapping against its baselines: steps as `plan` predicts them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "bench/zeppelin/cases.h"
#include "bench/zeppelin/methods.h"
#include "slimpack/base/file.h"

namespace slimpack::bench {
namespace {

/// The fastest rival of each batch.
constexpr const char* kFastestRival = "rivals";

/// Geometric means of one ring's time ÷ a method's.
class Speedups {
 public:
  void add(const std::string& group, const std::string& method, double speedup) {
    auto& [sum, count] = sums_[group][method];
    sum += std::log(speedup);
    ++count;
  }
  [[nodiscard]] double mean(const std::string& group, const std::string& method) const {
    const auto& [sum, count] = sums_.at(group).at(method);
    return std::exp(sum / count);
  }
  [[nodiscard]] const auto& groups() const { return sums_; }

 private:
  std::map<std::string, std::map<std::string, std::pair<double, int>>> sums_;
};

constexpr Tokens kTokensPerRank{4'096};

/// A batch of kTokensPerRank for each rank.
struct Batch {
  SequenceLengths lengths;
  std::int32_t ranks = 0;
};

/// Costs by what travels how, as `plan` prices them.
std::vector<Costs> costs_of(const Cluster& cluster, const Decoder& shape, std::int32_t ranks) {
  std::vector<Costs> costs;
  for (const Method& method : zeppelin_methods())
    costs.push_back(
        cost_from_hardware(shape, Dtype::kBf16, cluster.hardware, 1, ranks, 1, method.context));
  return costs;
}

/// Seconds of the shortest step over what a rank may hold in attention's layout, from its share up
/// to `most` times that.
double best_seconds(const Method& method, const Batch& batch, const LinkMap& links,
                    const Costs& cost, double most) {
  double least = std::numeric_limits<double>::infinity();
  for (double room = 1; room <= most; room += 0.25) {
    const ZoneProblem problem{
        batch.ranks, links,
        Tokens(std::llround(room * static_cast<double>(kTokensPerRank.count())))};
    for (const Zones& zones : zones_of(method, batch.lengths, problem, cost)) {
      const RatedPlan step = one_pack_step(method, zones, batch.lengths, problem, cost);
      least = std::min(least, to_seconds(step.prediction.makespan));
    }
    if (method.sharing == Sharing::kAllRanks) break;  // whatever they may hold
  }
  return least;
}

void compare(const Batch& batch, const LinkMap& links, const std::vector<Costs>& costs, double room,
             const std::vector<std::string>& groups, Speedups& speedups) {
  double one_ring = 0, fastest_rival = std::numeric_limits<double>::infinity();
  const std::vector<Method> methods = zeppelin_methods();
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const double time = best_seconds(methods[m], batch, links, costs[m], room);
    if (one_ring == 0) one_ring = time;  // the first method
    if (methods[m].rival) fastest_rival = std::min(fastest_rival, time);
    for (const std::string& group : groups) speedups.add(group, methods[m].name, one_ring / time);
  }
  for (const std::string& group : groups)
    speedups.add(group, kFastestRival, one_ring / fastest_rival);
}

std::size_t width_of(const std::string& group) {
  return std::max<std::size_t>(6, group.size()) + 1;
}

void print(const Speedups& speedups, const std::vector<std::string>& groups) {
  fmt::print("{:10}", "");
  for (const std::string& group : groups) fmt::print("{:>{}}", group, width_of(group));
  fmt::print("\n");
  const auto row = [&](const std::string& method) {
    fmt::print("{:10}", method);
    for (const std::string& group : groups)
      fmt::print("{:{}.2f}", speedups.mean(group, method), width_of(group));
    fmt::print("\n");
  };
  for (const Method& method : zeppelin_methods()) row(method.name);
  row(kFastestRival);
}

void run(std::int32_t seeds, double room, const std::string& json_file) {
  Speedups speedups;
  for (const Cluster& cluster : zeppelin_clusters())
    for (const NamedModel& model : zeppelin_models())
      for (const std::int32_t ranks : {16, 32, 64, 128}) {
        const std::vector<Costs> costs = costs_of(cluster, model.shape, ranks);
        for (const std::string& kind : zeppelin_length_kinds())
          for (std::int32_t seed = 1; seed <= seeds; ++seed) {
            const Batch batch{
                draw_lengths(kind, ranks * kTokensPerRank, static_cast<std::uint64_t>(seed)),
                ranks};
            compare(batch, link_map(cluster.hardware), costs, room,
                    {"all", cluster.name, model.name, kind, fmt::format("{} GPUs", ranks)},
                    speedups);
          }
      }
  fmt::print(
      "Times as fast as one ring of all ranks; rivals: the fastest of them in each batch\n\n");
  print(speedups, {"all", "A800", "H800", "3B", "7B", "13B", "arxiv", "github", "prolong64k"});
  fmt::print("\n");
  print(speedups, {"16 GPUs", "32 GPUs", "64 GPUs", "128 GPUs"});
  if (json_file.empty()) return;
  nlohmann::json json;
  for (const auto& [group, means] : speedups.groups())
    for (const auto& [method, mean] : means)
      json["speedup"][group][method] = speedups.mean(group, method);
  write_file(json_file, json.dump(1) + "\n");
}

}  // namespace
}  // namespace slimpack::bench

int main(int argc, char** argv) {
  CLI::App app{"Zeppelin's zones, routing and remapping, by simulation.", "zeppelin"};
  std::int32_t seeds = 5;
  double room = 2;
  std::string json;
  app.add_option("--seeds", seeds, "batches of each kind (default 5)")->check(CLI::Range(1, 1000));
  app.add_option("--room", room,
                 "times its share of tokens that a rank may hold in attention's layout (default 2)")
      ->check(CLI::Range(1.0, 100.0));
  app.add_option("--json", json, "write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::bench::run(seeds, room, json); });
}
