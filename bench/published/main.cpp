// The cost model and the simulator against steps that others measured: no GPU, no libtorch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "bench/published/evaluate.h"
#include "bench/published/fit.h"
#include "bench/published/report.h"
#include "bench/published/toml_figures.h"
#include "slimpack/base/file.h"
#include "slimpack/base/progress.h"

namespace slimpack::bench {
namespace {

struct Arguments {
  std::filesystem::path root = SLIMPACK_SOURCE_DIR;
  std::filesystem::path json;
  bool each = false;
  bool fit = false;
};

void write_figures(const std::filesystem::path& file,
                   const std::vector<std::pair<std::string_view, double>>& figures) {
  write_file(file, with_figures(read_file(file, "figures"), figures, file.string()));
}

void write_fit(const std::filesystem::path& root, const Published& published) {
  const Machines fitted =
      fit(published, read_machines(root), [](std::string_view set, double error) {
        fmt::print(stderr, "fitting {}: mean error {:.3f}%\n", set, 100 * error);
      });
  const std::filesystem::path folder = root / "bench/data/published";
  write_figures(folder / "a100-vtrain.toml",
                {{"node_link_bytes_per_second", fitted.vtrain.node_link_bytes_per_second},
                 {"node_link_latency_us", fitted.vtrain.node_link_latency_us}});
  for (const auto& [file, runtime] :
       {std::pair("megatron.toml", fitted.megatron), std::pair("eager.toml", fitted.eager)}) {
    std::vector<std::pair<std::string_view, double>> figures;
    for (const RuntimeField& field : runtime_fields())
      figures.emplace_back(field.name, runtime.*(field.figure));
    write_figures(folder / file, figures);
  }
}

void run(const Arguments& arguments) {
  const Published published = read_published(arguments.root / "bench/data/published");
  if (arguments.fit) write_fit(arguments.root, published);
  const Machines machines = read_machines(arguments.root);
  Progress progress(stderr, progress_style(stderr), "predicting",
                    static_cast<std::int64_t>(published.steps.size()));
  const std::vector<Outcome> outcomes =
      evaluate(published.steps, machines, [&] { progress.advance(); });
  progress.finish();
  if (arguments.each) fmt::print("{}\n", each_text(outcomes));
  fmt::print("{}", summary_text(outcomes, published.all_reduces, machines.vtrain));
  if (arguments.json.empty()) return;
  write_file(arguments.json,
             report_json(outcomes, published.all_reduces, machines.vtrain).dump(1) + "\n");
}

}  // namespace
}  // namespace slimpack::bench

int main(int argc, char** argv) {
  CLI::App app{
      "Predictions of the cost model and the simulator against step times and memory\n"
      "that others measured on their clusters. docs/hardware.md says what is predicted\n"
      "from what; bench/data/README.md, who measured.",
      "published"};
  slimpack::bench::Arguments arguments;
  app.add_option("--root", arguments.root, "The repository, for its data and hardware files");
  app.add_flag("--each", arguments.each, "Print every step with its errors");
  app.add_option("--json", arguments.json, "Write all figures here");
  app.add_flag("--fit", arguments.fit,
               "First fit the figures of vTrain's A100s and of two programs to half of their\n"
               "steps, and write them to a100-vtrain.toml, megatron.toml and eager.toml;\n"
               "takes minutes");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::bench::run(arguments); });
}
