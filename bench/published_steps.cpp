// Predictions from hardware files against published step times: GPT models of whole sequences of
// one length, under 1F1B, on other laboratories' clusters. bench/data/README.md says where the
// times are from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bench/program.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"

namespace slimpack::bench {
namespace {

constexpr std::string_view kHeader =
    "set,id,layers,hidden,heads,mlp,vocab,tokens,hardware,tp,pp,dp,micro_batch,batch,zero,"
    "recompute,"
    "ms";

struct PublishedStep {
  std::string set, id, hardware;
  ModelShape shape;
  Tokens tokens;  ///< of a sequence
  std::int32_t tp = 1, pp = 1, dp = 1, micro_batch = 1, batch = 1, zero = 1;
  Recompute recompute = Recompute::kElementwise;
  double seconds = 0;
};

/// An MLP of two maps has the FLOPs and parameters of a gated one of two thirds of its width.
ModelShape gpt_shape(const std::vector<std::string>& cells) {
  const auto number = [&](std::size_t c) { return std::int64_t{std::stoll(cells[c])}; };
  ModelShape shape;
  shape.num_layers = number(2);
  shape.hidden_size = number(3);
  shape.num_heads = shape.num_kv_heads = number(4);
  shape.head_dim = shape.hidden_size / shape.num_heads;
  shape.intermediate_size = 2 * number(5) / 3;
  shape.vocab_size = number(6);
  shape.tie_embeddings = true;
  return shape;
}

PublishedStep step_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> cells;
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  if (cells.size() != 17) invalid_input("\"{}\" has {} cells, must have 17", line, cells.size());
  const auto count = [&](std::size_t c) { return std::stoi(cells[c]); };
  return {.set = cells[0],
          .id = cells[1],
          .hardware = cells[8],
          .shape = gpt_shape(cells),
          .tokens = Tokens(std::stoll(cells[7])),
          .tp = count(9),
          .pp = count(10),
          .dp = count(11),
          .micro_batch = count(12),
          .batch = count(13),
          .zero = count(14),
          .recompute = cells[15] == "full" ? Recompute::kFull : Recompute::kElementwise,
          .seconds = std::stod(cells[16]) * 1e-3};
}

std::vector<PublishedStep> read_steps(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file, "steps"));
  std::string line;
  std::getline(lines, line);
  if (line != kHeader) invalid_input("{}: begins with \"{}\"", file.string(), line);
  std::vector<PublishedStep> steps;
  while (std::getline(lines, line)) steps.push_back(step_of(line));
  return steps;
}

/// All replicas are alike, so one is simulated.
double predicted_seconds(const PublishedStep& step, const std::filesystem::path& folder) {
  const HardwareSpec hardware = read_hardware(folder / (step.hardware + ".toml"));
  Costs plain = cost_from_hardware(step.shape, Dtype::kBf16, hardware, step.tp, step.dp, step.pp);
  plain.zero = step.zero;
  const RecomputingCosts cost = with_recompute(plain, step.recompute);
  PackPlan packs;
  SequenceLengths lengths;
  for (std::int32_t m = 0; m < step.batch / step.dp / step.micro_batch; ++m) {
    MicroPack& pack = packs.forward.emplace_back();
    for (std::int32_t s = 0; s < step.micro_batch; ++s) {
      pack.slices.push_back({SequenceId(lengths.size()), Tokens(0), step.tokens});
      lengths.push_back(step.tokens);
    }
  }
  packs.backward = packs.forward;
  const StageLayout layout = balanced_layout(plain, lengths, step.pp);
  const ReplicaPacks replica{packs, task_times(cost, layout, packs, {.replicas = step.dp}),
                             task_bytes(cost, layout, packs, lengths)};
  const Schedule schedule = one_f_one_b(packs, step.pp);
  return to_seconds(simulate({&replica, 1}, {&schedule, 1}, {.timeline = false}).makespan);
}

void compare(const std::filesystem::path& steps, const std::filesystem::path& folder, bool each) {
  std::map<std::string, std::vector<double>> ratios;  // by set and hardware
  for (const PublishedStep& step : read_steps(steps)) {
    const double ratio = predicted_seconds(step, folder) / step.seconds;
    ratios[step.set + ", " + step.hardware].push_back(ratio);
    if (each) fmt::print("{} {:.3f}\n", step.id, ratio);
  }
  Table table({{"set", Align::kLeft}, {"steps"}, {"median"}, {"mean error"}, {"within 20%"}});
  for (auto& [name, of_set] : ratios) {
    double error = 0;
    std::int64_t near = 0;
    for (const double ratio : of_set) {
      error += std::abs(ratio - 1) / static_cast<double>(of_set.size());
      near += std::abs(ratio - 1) <= 0.2 ? 1 : 0;
    }
    table.add_row({name, fmt::format("{}", of_set.size()), fmt::format("{:.2f}", median(of_set)),
                   fmt::format("{:.0f}%", 100 * error), fmt::format("{}", near)});
  }
  fmt::print("Predicted ÷ measured step times\n\n{}", table.text());
}

}  // namespace
}  // namespace slimpack::bench

int main(int argc, char** argv) {
  CLI::App app{"Predictions from hardware files against published step times", "published_steps"};
  const std::filesystem::path root = SLIMPACK_SOURCE_DIR;
  std::filesystem::path steps = root / "bench/data/published_steps.csv";
  std::filesystem::path folder = root / "hardware";
  bool each = false;
  app.add_option("--steps", steps, "published steps");
  app.add_option("--hardware", folder, "folder of hardware files");
  app.add_flag("--each", each, "print every step's ratio");
  return slimpack::run_benchmark(app, argc, argv,
                                 [&] { slimpack::bench::compare(steps, folder, each); });
}
