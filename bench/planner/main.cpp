// The planner against goals, bounds and baselines, all by simulation: no GPU and no libtorch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/program.h"
#include "slimpack/base/file.h"
#include "slimpack/spec/recompute.h"

namespace slimpack::bench {
namespace {

struct Part {
  const char* name;
  void (*run)(const BenchOptions& options, Report& report);
};

constexpr Part kParts[] = {
    {"a", run_setting_a},       {"b", run_setting_b},   {"gap", run_gap},
    {"planning", run_planning}, {"split", run_split},   {"baselines_tuned", run_baselines_tuned},
    {"layouts", run_layouts},   {"groups", run_groups}, {"shares", run_shares}};

struct Arguments {
  std::vector<std::string> parts;
  BenchOptions options;
  std::string json;
};

void run(const Arguments& arguments) {
  Report report;
  for (const Part& part : kParts)
    if (std::ranges::find(arguments.parts, part.name) != arguments.parts.end())
      part.run(arguments.options, report);
  fmt::print("\n{}", report.goals_text());
  if (arguments.json.empty()) return;
  nlohmann::json json = report.json();
  json["effort"] = arguments.options.effort;
  json["recompute"] = arguments.options.recompute;
  json["repetitions"] = arguments.options.repetitions;
  write_file(arguments.json, json.dump(1) + "\n");
}

}  // namespace

std::string in_k(Tokens tokens) {
  return fmt::format("{}K", tokens.count() / 1024);
}

}  // namespace slimpack::bench

int main(int argc, char** argv) {
  namespace bench = slimpack::bench;
  CLI::App app{"The planner against goals, bounds and baselines, by simulation.", "planner"};
  bench::Arguments arguments;
  for (const bench::Part& part : bench::kParts) arguments.parts.emplace_back(part.name);
  arguments.options.lengths = bench::repository_file("bench/data/wlbllm_lengths.txt");
  app.add_option("--part", arguments.parts, "Which parts, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(arguments.parts))
      ->capture_default_str();
  app.add_option("--repetitions", arguments.options.repetitions,
                 "Times of part a are medians of so many, of planning the best")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--effort", arguments.options.effort, "Rounds of our planner's local search")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--long-effort", arguments.options.long_effort,
                 "Rounds of the long search that part split compares with")
      ->check(CLI::Range(2, 8))
      ->capture_default_str();
  std::vector<std::string> recomputations{"uniform", "auto"};
  for (const slimpack::Recompute one : slimpack::all_recomputations())
    recomputations.emplace_back(to_string(one));
  app.add_option(
         "--recompute", arguments.options.recompute,
         "What plans of part gap may compute again: one policy, uniform = any one but offload "
         "for all layers, auto = likewise, by layer")
      ->check(CLI::IsMember(recomputations))
      ->capture_default_str();
  app.add_option("--model", arguments.options.models,
                 "Models of parts baselines_tuned and layouts, from models/")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--context", arguments.options.contexts, "Their contexts in K")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--sequences", arguments.options.sequences, "Their sequences of a step")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--lengths", arguments.options.lengths, "Real lengths, one a line")
      ->capture_default_str();
  app.add_option("--cases", arguments.options.cases,
                 "Parts planning, split and groups take those with this in their names alone");
  app.add_option("--json", arguments.json, "Write all figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { bench::run(arguments); });
}
