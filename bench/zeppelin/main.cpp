// Zeppelin's zones, routing and remapping against its baselines, by simulation of a step.
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

void compare(const Batch& batch, const std::vector<std::string>& groups, Speedups& speedups) {
  double one_ring = 0, fastest_rival = std::numeric_limits<double>::infinity();
  for (const Method& method : zeppelin_methods()) {
    const double time = method.step_time(batch);
    if (one_ring == 0) one_ring = time;  // the first method
    if (method.rival) fastest_rival = std::min(fastest_rival, time);
    for (const std::string& group : groups) speedups.add(group, method.name, one_ring / time);
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
      for (const std::string& kind : zeppelin_length_kinds())
        for (const std::int32_t ranks : {16, 32, 64, 128})
          for (std::int32_t seed = 1; seed <= seeds; ++seed) {
            Batch batch =
                make_batch(cluster, model.shape, kind, ranks, static_cast<std::uint64_t>(seed));
            batch.room = room;
            compare(batch, {"all", cluster.name, model.name, kind, fmt::format("{} GPUs", ranks)},
                    speedups);
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
