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
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/operator_counts.h"
#include "bench/program.h"
#include "slimpack/base/file.h"
#include "slimpack/base/random.h"
#include "slimpack/base/table.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/sim/lower.h"
#include "tests/packflow/support/pretended_device.h"

namespace slimpack {
namespace {

using testing::kPretended;

struct Arguments {
  bool names = false;
  std::string json;
};

constexpr Tokens kDocument{48};  // counts do not depend on it; no multiple of the ranks' stripes
constexpr std::int64_t kFewLayers = 1, kMoreLayers = 3;

/// What the actions of a step work on.
struct Case {
  at::Device device;
  bool sliced = false;  ///< one document in two slices; else each MicroPack has whole documents
  std::int64_t documents = 1;
  Recompute recompute = Recompute::kElementwise;
  std::int32_t tensor = 1;
  std::int32_t stages = 1;
};

ModelShape small_model(std::int64_t layers) {
  ModelShape s;
  s.hidden_size = 64;
  s.intermediate_size = 96;
  s.num_layers = layers;
  s.num_heads = 4;
  s.num_kv_heads = 2;
  s.head_dim = 16;
  s.vocab_size = 61;
  s.max_positions = Tokens(4096);
  return s;
}

/// Two MicroPacks a pass.
PackPlan packs_of(const Case& c) {
  PackPlan packs;
  if (c.sliced) {
    const Slice first{SequenceId(0), Tokens(0), kDocument},
        second{SequenceId(0), kDocument, kDocument * 2};
    return {{{{first}}, {{second}}}, {{{second}}, {{first}}}};
  }
  packs.forward.resize(2);
  for (std::int64_t d = 0; d < 2 * c.documents; ++d)
    packs.forward[static_cast<std::size_t>(d / c.documents)].slices.push_back(
        {SequenceId(static_cast<std::int32_t>(d)), Tokens(0), kDocument});
  packs.backward = packs.forward;
  return packs;
}

/// What a rank has asked for before an action.
struct Moment {
  OperatorCounts operators;
  testing::ThreadCalls calls;
};

/// By rank (tracked_rank), before each of its actions.
using Moments = std::map<std::int32_t, std::vector<Moment>>;

struct Step {
  Schedule schedule;
  Moments moments;
};

/// Runs a step of a model of `layers` layers.
Step run_step(const Case& c, std::int64_t layers) {
  const ModelShape shape = small_model(layers);
  const auto documents = static_cast<std::size_t>(c.sliced ? 1 : 2 * c.documents);
  StepPlan plan{SequenceLengths(documents, c.sliced ? kDocument * 2 : kDocument), {}, {}, {}};
  for (std::int32_t s = 0; s <= c.stages; ++s)
    plan.layout.layer_begin.push_back(static_cast<std::int32_t>(layers) * s / c.stages);
  ReplicaPlan& replica = plan.replicas.emplace_back();
  for (std::size_t d = 0; d < documents; ++d)
    replica.sequences.emplace_back(static_cast<std::int32_t>(d));
  replica.packs = packs_of(c);
  plan.recompute = RecomputeByLayer(static_cast<std::size_t>(layers), c.recompute);
  Step step;
  step.schedule = c.sliced ? sliced_one_f_one_b(replica.packs, c.stages, 1)
                           : one_f_one_b(replica.packs, c.stages);

  Rng rng(1);
  std::vector<std::vector<std::int64_t>> tokens(documents);
  for (std::size_t d = 0; d < documents; ++d)
    for (std::int64_t t = 0; t < plan.lengths[d].count(); ++t)
      tokens[d].push_back(static_cast<std::int64_t>(rng.below(61)));

  std::mutex mutex;
  EngineOptions options{.shape = shape,
                        .dtype = Dtype::kBf16,
                        .layout = plan.layout,
                        .tensor = c.tensor,
                        .context = kDocument * 2,
                        .device = c.device,
                        .should_stop = [&] {
                          const std::lock_guard lock(mutex);
                          step.moments[tracked_rank()].push_back(
                              {counts_of_thread(), testing::pretended_calls_of_thread()});
                          return false;
                        }};
  Engine engine(options);
  static_cast<void>(engine.run(plan, lower(plan, {&step.schedule, 1}), make_step_tokens(tokens, 61),
                               std::nullopt));
  return step;
}

/// What the first rank's action `index` asks for.
Moment cost_of(const Step& step, std::size_t index) {
  const std::vector<Moment>& moments = step.moments.begin()->second;
  const Moment &before = moments.at(index), &after = moments.at(index + 1);
  return {
      difference(after.operators, before.operators),
      {after.calls.allocations - before.calls.allocations, after.calls.waits - before.calls.waits}};
}

/// What a layer asks for in a pass.
struct LayerCost {
  OperatorCounts operators;
  double allocations = 0;
  [[nodiscard]] double launches() const {
    return static_cast<double>(sum_of(operators)) / (kMoreLayers - kFewLayers);
  }
};

/// Of a slice with a prefix where the case is sliced: the second forward, the first backward.
LayerCost layer_cost(const Case& c, Pass pass) {
  const std::size_t index =
      c.sliced ? (pass == Pass::kForward ? 1 : 2) : (pass == Pass::kForward ? 0 : 1);
  const Moment few = cost_of(run_step(c, kFewLayers), index);
  const Moment more = cost_of(run_step(c, kMoreLayers), index);
  return {difference(more.operators, few.operators),
          static_cast<double>(more.calls.allocations - few.calls.allocations) /
              (kMoreLayers - kFewLayers)};
}

/// Of the rank that waits most, by action, on three stages where it has neighbours on both sides.
double waits_per_action(Case c) {
  c.stages = kMoreLayers;
  const Step step = run_step(c, kMoreLayers);
  double most = 0;
  for (const auto& [rank, moments] : step.moments) {
    // What a step begins with is the first action's, and no action's.
    const std::int64_t waits = moments.back().calls.waits - moments[1].calls.waits;
    most = std::max(most, static_cast<double>(waits) / static_cast<double>(moments.size() - 2));
  }
  return most;
}

struct Row {
  Case c;
  LayerCost forward, backward;
  double per_document = 0, waits = 0;
};

Row measure(const Case& c) {
  count_operators(c.device);
  Row row{c, layer_cost(c, Pass::kForward), layer_cost(c, Pass::kBackward)};
  row.waits = waits_per_action(c);
  if (c.sliced) return row;
  constexpr std::int64_t kDocuments = 5;
  Case several = c;
  several.documents = kDocuments;
  const double more = layer_cost(several, Pass::kForward).launches() +
                      layer_cost(several, Pass::kBackward).launches();
  row.per_document = (more - row.forward.launches() - row.backward.launches()) / (kDocuments - 1);
  return row;
}

std::string device_name(const Case& c) {
  return c.device.is_cpu() ? "cpu" : "as a GPU";
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const at::Device device : {at::Device(kPretended), at::Device(at::kCPU)})
    for (const bool sliced : {false, true})
      for (const Recompute recompute : {Recompute::kElementwise, Recompute::kFull})
        for (const std::int32_t tensor : {1, 2})
          cases.push_back({device, sliced, 1, recompute, tensor});
  return cases;
}

void print_names(const Row& row) {
  Table table({{"operator", Align::kLeft}, {"forward"}, {"backward"}});
  OperatorCounts all = row.forward.operators;
  all.insert(row.backward.operators.begin(), row.backward.operators.end());
  const auto per_layer = [](const OperatorCounts& counts, const std::string& name) {
    const auto it = counts.find(name);
    return it == counts.end()
               ? std::string("–")
               : fmt::format("{:g}", static_cast<double>(it->second) / (kMoreLayers - kFewLayers));
  };
  for (const auto& [name, times] : all)
    table.add_row(
        {name, per_layer(row.forward.operators, name), per_layer(row.backward.operators, name)});
  fmt::print("\n{}", table.text());
}

void run(const Arguments& a) {
  Table table({{"device", Align::kLeft},
               {"documents", Align::kLeft},
               {"recomputation", Align::kLeft},
               {"tp"},
               {"forward"},
               {"backward"},
               {"per document"},
               {"allocations"},
               {"waits"}});
  nlohmann::json json;
  std::vector<Row> rows;
  for (const Case& c : all_cases()) {
    const Row& row = rows.emplace_back(measure(c));
    const bool cpu = c.device.is_cpu();
    table.add_row(
        {device_name(c), c.sliced ? "slice with prefix" : "whole",
         std::string(to_string(c.recompute)), std::to_string(c.tensor),
         fmt::format("{:g}", row.forward.launches()), fmt::format("{:g}", row.backward.launches()),
         c.sliced ? "–" : fmt::format("{:g}", row.per_document),
         cpu ? "–" : fmt::format("{:g} + {:g}", row.forward.allocations, row.backward.allocations),
         cpu ? "–" : fmt::format("{:.1f}", row.waits)});
    nlohmann::json& entry =
        json["cases"].emplace_back(nlohmann::json{{"device", device_name(c)},
                                                  {"sliced", c.sliced},
                                                  {"recompute", to_string(c.recompute)},
                                                  {"tp", c.tensor},
                                                  {"forward_per_layer", row.forward.launches()},
                                                  {"backward_per_layer", row.backward.launches()}});
    if (!c.sliced) entry["per_extra_document"] = row.per_document;
    if (cpu) continue;
    entry["forward_allocations_per_layer"] = row.forward.allocations;
    entry["backward_allocations_per_layer"] = row.backward.allocations;
    entry["host_syncs_per_action"] = row.waits;
  }
  fmt::print(
      "Launched operators of a layer by pass, and those of both passes for each further whole "
      "document;\nallocations of a layer, forward + backward; waits of the host in an action\n\n{}",
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
  app.add_option("--json", arguments.json, "Write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::run(arguments); });
}
