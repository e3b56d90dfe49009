// What each part of the planner's search is worth, by simulation.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/ablation/ablation.h"
#include "bench/ablation/asymmetry.h"
#include "bench/program.h"
#include "slimpack/base/file.h"

namespace slimpack::bench {
namespace {

struct Arguments {
  std::vector<std::string> parts{"switches", "asymmetry"};
  std::filesystem::path lengths = repository_file("bench/data/wlbllm_lengths.txt");
  std::size_t lists = 3;
  std::vector<std::string> settings;
  std::vector<std::string> groups;
  std::string json;
};

template <class Named>
void keep_named(std::vector<Named>& all, const std::vector<std::string>& names,
                std::string Named::*name) {
  if (names.empty()) return;
  std::erase_if(
      all, [&](const Named& one) { return std::ranges::find(names, one.*name) == names.end(); });
}

bool has(const Arguments& arguments, std::string_view part) {
  return std::ranges::find(arguments.parts, part) != arguments.parts.end();
}

nlohmann::json run_switches(const Arguments& arguments) {
  std::vector<Setting> settings = ablation_settings(arguments.lengths, arguments.lists);
  keep_named(settings, arguments.settings, &Setting::name);
  std::vector<Switch> switches = ablation_switches();
  keep_named(switches, arguments.groups, &Switch::group);
  Ablation ablation = run_ablation(settings, switches);
  fmt::print(
      "\nHow much longer steps get, in percent: means by setting, worst of all steps; lost:\n"
      "no longer fit. plan: processor time of planning, as a ratio\n\n{}",
      ablation.table);
  return std::move(ablation.json);
}

nlohmann::json run_sweep() {
  Ablation asymmetry = run_asymmetry();
  fmt::print(
      "\nHow much longer steps are with symmetric cuts alone than with asymmetric ones\n\n{}",
      asymmetry.table);
  return std::move(asymmetry.json);
}

void run(const Arguments& arguments) {
  nlohmann::json json = nlohmann::json::object();
  if (has(arguments, "switches")) json = run_switches(arguments);
  if (has(arguments, "asymmetry")) json["asymmetry"] = run_sweep();
  if (!arguments.json.empty()) write_file(arguments.json, json.dump(1) + "\n");
}

}  // namespace
}  // namespace slimpack::bench

int main(int argc, char** argv) {
  namespace bench = slimpack::bench;
  CLI::App app{"What each part of the planner's search is worth, by simulation.", "ablation"};
  bench::Arguments arguments;
  app.add_option("--part", arguments.parts, "Which parts, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(arguments.parts))
      ->capture_default_str();
  app.add_option("--lengths", arguments.lengths, "Real lengths, one a line")->capture_default_str();
  app.add_option("--lists", arguments.lists, "At most so many held-back lists")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--setting", arguments.settings, "Only these settings, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"A", "B", "few", "H100", "lists", "short", "tiny"}));
  app.add_option("--group", arguments.groups, "Only these groups of switches, separated by commas")
      ->delimiter(',');
  app.add_option("--json", arguments.json, "Write all figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { bench::run(arguments); });
}
