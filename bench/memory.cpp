// Peak memory of a pipeline that has several long documents in flight: fixed packing under 1F1B,
// which holds whole documents, beside our plan under a cap in proportion to the peak of fixed
// packing. Both are run; peaks are measured. Random tokens: neither plan looks at them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/program.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/random.h"
#include "slimpack/base/table.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/planner.h"

namespace slimpack {
namespace {

struct Arguments {
  std::int64_t length = 32768;
  std::int64_t documents = 4;
  std::int32_t stages = 4;
  double share = 0.4;
  std::string json;
};

/// One layer a stage, and no wider than it has to be: attention takes most of the time.
Decoder narrow_model(const Arguments& a) {
  Decoder s;
  s.kinds = {{.hidden_size = 64,
              .num_heads = 2,
              .num_kv_heads = 1,
              .head_dim = 32,
              .value_dim = 32,
              .dense_width = 176}};
  s.set_layers(a.stages);
  s.vocab_size = 256;
  s.max_positions = Tokens(a.length);
  return s;
}

StepTokens random_tokens(const Arguments& a, std::int64_t vocab_size) {
  Rng rng(1);
  std::vector<std::vector<std::int64_t>> documents(static_cast<std::size_t>(a.documents));
  for (auto& document : documents)
    for (std::int64_t t = 0; t < a.length; ++t)
      document.push_back(
          static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(vocab_size))));
  return make_step_tokens(documents, vocab_size);
}

/// A plan's step: the bytes of its worst stage, and its time.
struct Outcome {
  std::string name;
  Bytes predicted, measured;
  Nanos time, predicted_time;
};

class Bench {
 public:
  explicit Bench(const Arguments& a)
      : shape_(narrow_model(a)),
        cost_(profile_costs({.shape = shape_,
                             .context = Tokens(a.length),
                             .ranks = processors(),
                             .clock = ClockKind::kVirtual})),
        lengths_(static_cast<std::size_t>(a.documents), Tokens(a.length)),
        tokens_(random_tokens(a, shape_.vocab_size)),
        engine_({.shape = shape_,
                 .layout = balanced_layout(cost_, lengths_, a.stages),
                 .context = Tokens(a.length),
                 .clock = ClockKind::kVirtual}) {}

  [[nodiscard]] RunnablePlan plan(PlannerKind planner, std::optional<Bytes> cap) const {
    PlanOutcome outcome = plan_step({{.layout = engine_.options().layout,
                                      .memory_cap = cap,
                                      .context = engine_.options().context},
                                     lengths_,
                                     {.planner = planner},
                                     cost_});
    if (outcome.does_not_fit) throw InvalidInput(outcome.does_not_fit->message("raise --share"));
    return *std::move(outcome.step);
  }

  [[nodiscard]] Outcome run(std::string name, const RunnablePlan& planned) {
    const StepResult result = engine_.run(planned.plan, planned.lowered, tokens_, std::nullopt);
    return {std::move(name), largest(planned.prediction.peak_activation),
            largest(result.timeline.peak_activation), metrics_of(result.timeline).makespan,
            planned.prediction.makespan};
  }

  static Bytes largest(const std::vector<Bytes>& bytes) { return *std::ranges::max_element(bytes); }

 private:
  Decoder shape_;
  Costs cost_;
  SequenceLengths lengths_;
  StepTokens tokens_;
  Engine engine_;
};

void run(const Arguments& a) {
  Bench bench(a);
  const RunnablePlan packed = bench.plan(PlannerKind::kPacked, std::nullopt);
  const Bytes cap(static_cast<std::int64_t>(
      a.share * static_cast<double>(Bench::largest(packed.prediction.peak_activation).count())));
  const RunnablePlan sliced = bench.plan(PlannerKind::kSlimpack, cap);
  const Outcome outcomes[] = {bench.run("packed, 1F1B", packed), bench.run("slimpack", sliced)};
  const auto share = [&](const Outcome& o) {
    return static_cast<double>(o.measured.count()) /
           static_cast<double>(outcomes[0].measured.count());
  };
  Table table({{"", Align::kLeft},
               {"peak activations"},
               {"predicted"},
               {"of packed"},
               {"step"},
               {"predicted"}});
  nlohmann::json json{{"length", a.length}, {"documents", a.documents}, {"stages", a.stages}};
  for (const Outcome& o : outcomes) {
    table.add_row({o.name, human_bytes(o.measured), human_bytes(o.predicted), human_share(share(o)),
                   fmt::format("{:.2f} s", to_seconds(o.time)),
                   fmt::format("{:.2f} s", to_seconds(o.predicted_time))});
    json["plans"].push_back({{"name", o.name},
                             {"peak_activation_bytes", o.measured.count()},
                             {"predicted_peak_activation_bytes", o.predicted.count()},
                             {"of_packed", share(o)},
                             {"seconds", to_seconds(o.time)}});
  }
  fmt::print("{} documents of {} tokens on {} stages, cap {}\n\n{}", a.documents, grouped(a.length),
             a.stages, human_bytes(cap), table.text());
  if (!a.json.empty()) write_file(a.json, json.dump(2) + "\n");
}

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"Peak memory of long documents in a pipeline, packed and sliced.", "memory"};
  slimpack::Arguments arguments;
  app.add_option("--length", arguments.length, "Tokens of each document")->capture_default_str();
  app.add_option("--documents", arguments.documents, "Documents of the step")
      ->capture_default_str();
  app.add_option("--stages", arguments.stages, "Stages of one layer each")->capture_default_str();
  app.add_option("--share", arguments.share, "Memory cap, as a share of what packing holds")
      ->capture_default_str();
  app.add_option("--json", arguments.json, "Write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::run(arguments); });
}
