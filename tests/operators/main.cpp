// Operators, allocations and waits of a decoder layer by pass: what a GPU pays for launching
// kernels.
//
// Two models differ in their number of layers alone; what a pass of one has beyond the other's is a
// layer's. On the pretended device the runtime goes a GPU's way: kernels that libtorch has for GPUs
// alone have stand-ins (tests/packflow/support/pretended_kernels.cpp). Nothing is timed.
#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/program.h"
#include "slimpack/base/file.h"
#include "slimpack/base/table.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "tests/operators/operator_bytes.h"
#include "tests/operators/operator_steps.h"

namespace slimpack {
namespace {

using testing::kPretended;

struct Arguments {
  bool names = false, bytes = false;
  std::string model = SLIMPACK_SOURCE_DIR "/bench/data/llama_1b.json";
  std::string json;
};

constexpr std::int64_t kFewLayers = 1, kMoreLayers = 3;

/// The operators and allocations of a layer in a pass.
struct LayerCost {
  OperatorCounts operators;
  double allocations = 0;
  [[nodiscard]] double launches() const {
    return static_cast<double>(launches_of(operators)) / (kMoreLayers - kFewLayers);
  }
};

struct PassCosts {
  LayerCost forward, backward;
  [[nodiscard]] double launches() const { return forward.launches() + backward.launches(); }
};

/// The costs of a slice. Where the case is sliced, the slice has a prefix: the second forward, the
/// first backward.
PassCosts layer_costs(const OperatorCase& c) {
  const Moments few = count_step(c, kFewLayers), more = count_step(c, kMoreLayers);
  const auto beyond = [&](std::size_t index) {
    const Moment less = cost_of(few, 0, index), all = cost_of(more, 0, index);
    return LayerCost{difference(all.operators, less.operators),
                     static_cast<double>(all.calls.allocations - less.calls.allocations) /
                         (kMoreLayers - kFewLayers)};
  };
  const std::size_t forward = c.sliced ? 1 : 0;
  return {beyond(forward), beyond(forward + 1)};
}

/// Waits per action of the rank that waits most, on three stages, where it has neighbours on both
/// sides.
double waits_per_action(OperatorCase c, bool processes) {
  c.stages = kMoreLayers;
  c.processes = processes;
  double most = 0;
  for (const auto& [rank, moments] : count_step(c, kMoreLayers)) {
    // Waits at the beginning of a step count for the first action, and belong to no action.
    const std::int64_t waits = moments.back().calls.waits - moments[1].calls.waits;
    most = std::max(most, static_cast<double>(waits) / static_cast<double>(moments.size() - 2));
  }
  return most;
}

struct Row {
  OperatorCase c;
  PassCosts costs;
  double per_document = 0;
  double waits = 0, waits_of_threads = 0;
};

Row measure(const OperatorCase& c) {
  count_operators(c.device);
  Row row{c, layer_costs(c)};
  row.waits = waits_per_action(c, /*processes=*/true);
  row.waits_of_threads = waits_per_action(c, /*processes=*/false);
  constexpr std::int64_t kDocuments = 5;
  OperatorCase several = c;
  several.documents = kDocuments;
  row.per_document = (layer_costs(several).launches() - row.costs.launches()) / (kDocuments - 1);
  return row;
}

std::string device_name(const OperatorCase& c) {
  return c.device.is_cpu() ? "cpu" : "as a GPU";
}

/// On a GPU ranks are processes; on the CPU they are threads here.
std::vector<OperatorCase> all_cases() {
  std::vector<OperatorCase> cases;
  for (const at::Device device : {at::Device(kPretended), at::Device(at::kCPU)})
    for (const bool sliced : {false, true})
      for (const Recompute recompute :
           {Recompute::kNothing, Recompute::kElementwise, Recompute::kFull})
        for (const std::int32_t tensor : {1, 2, 4})
          cases.push_back({.device = device,
                           .sliced = sliced,
                           .recompute = recompute,
                           .tensor = tensor,
                           .processes = !device.is_cpu()});
  for (const bool sliced : {false, true})
    for (const Recompute recompute :
         {Recompute::kNothing, Recompute::kElementwise, Recompute::kFull})
      cases.push_back({.device = kPretended,
                       .shape = small_model(/*qk_norm=*/true),
                       .sliced = sliced,
                       .recompute = recompute,
                       .processes = true});
  return cases;
}

void print_names(const Row& row) {
  Table table({{"operator", Align::kLeft}, {"forward"}, {"backward"}});
  OperatorCounts all = row.costs.forward.operators;
  all.insert(row.costs.backward.operators.begin(), row.costs.backward.operators.end());
  const auto per_layer = [](const OperatorCounts& counts, const std::string& name) {
    const auto it = counts.find(name);
    return it == counts.end() ? std::string("–")
                              : fmt::format("{:g}", static_cast<double>(it->second.launches) /
                                                        (kMoreLayers - kFewLayers));
  };
  for (const auto& [name, times] : all)
    table.add_row({name, per_layer(row.costs.forward.operators, name),
                   per_layer(row.costs.backward.operators, name)});
  fmt::print("\n{}", table.text());
}

void print_bytes(const Arguments& a) {
  const Decoder shape = read_decoder(a.model);
  Table table({{"recomputation", Align::kLeft},
               {"part", Align::kLeft},
               {"elementwise"},
               {"products"},
               {"attention"}});
  nlohmann::json json;
  const auto add = [&](std::string_view policy, const char* part, const KindBytes& kinds) {
    const auto kb = [](double value) { return fmt::format("{:.1f}", value / 1e3); };
    table.add_row({std::string(policy), part, kb(kinds.elementwise), kb(kinds.products),
                   kb(kinds.attention)});
    return nlohmann::json{{"elementwise", kinds.elementwise},
                          {"products", kinds.products},
                          {"attention", kinds.attention}};
  };
  for (const Recompute recompute :
       {Recompute::kNothing, Recompute::kElementwise, Recompute::kFull}) {
    const LayerBytes layer = count_layer_bytes(shape, recompute);
    const std::string_view policy = to_string(recompute);
    nlohmann::json& of_policy = json["layer"][policy];
    of_policy["forward"] = add(policy, "layer, forward", layer.forward);
    of_policy["backward"] = add(policy, "layer, backward", layer.backward);
    json["layer_bytes_per_token"][policy] = layer.forward.elementwise + layer.backward.elementwise;
  }
  const HeadBytes head = count_head_bytes(shape);
  json["head"] = add("any", "head", head.token);
  json["head_bytes_per_token"] = head.token.elementwise;
  json["head_bytes_per_block"] = head.block.products;
  fmt::print(
      "KB that operators read and write for a token, by layer and pass, as on a GPU; the\n"
      "head is last norm, head and loss in both passes. Fusing removes elementwise ones\n"
      "alone. {}\n\n{}\nThe products of each block of the head's rows move {:.1f} MB besides.\n",
      std::filesystem::path(a.model).filename().string(), table.text(), head.block.products / 1e6);
  if (!a.json.empty()) write_file(a.json, json.dump(2) + "\n");
}

void run(const Arguments& a) {
  if (a.bytes) return print_bytes(a);
  Table table({{"device", Align::kLeft},
               {"documents", Align::kLeft},
               {"recomputation", Align::kLeft},
               {"tp"},
               {"q/k norms", Align::kLeft},
               {"forward"},
               {"backward"},
               {"per document"},
               {"allocations"},
               {"waits"},
               {"of threads"}});
  nlohmann::json json;
  std::vector<Row> rows;
  for (const OperatorCase& c : all_cases()) {
    const Row& row = rows.emplace_back(measure(c));
    const bool cpu = c.device.is_cpu();
    table.add_row({device_name(c), c.sliced ? "slice with prefix" : "whole",
                   std::string(to_string(c.recompute)), std::to_string(c.tensor),
                   c.shape.kinds[0].has_qk_norm() ? "yes" : "no",
                   fmt::format("{:g}", row.costs.forward.launches()),
                   fmt::format("{:g}", row.costs.backward.launches()),
                   fmt::format("{:g}", row.per_document),
                   cpu ? "–"
                       : fmt::format("{:g} + {:g}", row.costs.forward.allocations,
                                     row.costs.backward.allocations),
                   cpu ? "–" : fmt::format("{:.1f}", row.waits),
                   cpu ? "–" : fmt::format("{:.1f}", row.waits_of_threads)});
    nlohmann::json& entry = json["cases"].emplace_back(
        nlohmann::json{{"device", device_name(c)},
                       {"sliced", c.sliced},
                       {"recompute", to_string(c.recompute)},
                       {"tp", c.tensor},
                       {"qk_norm", c.shape.kinds[0].has_qk_norm()},
                       {"forward_per_layer", row.costs.forward.launches()},
                       {"backward_per_layer", row.costs.backward.launches()}});
    entry["per_extra_document"] = row.per_document;
    if (cpu) continue;
    entry["forward_allocations_per_layer"] = row.costs.forward.allocations;
    entry["backward_allocations_per_layer"] = row.costs.backward.allocations;
    entry["host_syncs_per_action"] = row.waits;
    entry["host_syncs_per_action_of_threads"] = row.waits_of_threads;
  }
  fmt::print(
      "Launched operators of a layer by pass, and those of both passes for each further\n"
      "document or slice; allocations of a layer, forward + backward; waits of the host in\n"
      "an action, of ranks that are processes and of ranks that are threads\n\n{}",
      table.text());
  if (a.names) print_names(rows.front());
  if (!a.json.empty()) write_file(a.json, json.dump(2) + "\n");
}

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  at::set_num_threads(1);
  CLI::App app{"Operators, allocations and waits of a layer by pass.", "operators"};
  slimpack::Arguments arguments;
  app.add_flag("--names", arguments.names, "Say which operators the first row has");
  app.add_flag("--bytes", arguments.bytes, "Sum the bytes of operators for a token instead");
  app.add_option("--model", arguments.model, "config.json of the model whose bytes are summed");
  app.add_option("--json", arguments.json, "Write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::run(arguments); });
}
