// One training step of real documents three ways in one run: one rank with whole documents, two
// rank threads with fixed packing under 1F1B, two rank threads with sliced MicroPacks. Prints the
// parallel efficiency T1 / (ranks · T2) of both and the predictions beside the measurements; on
// request the time of Hugging Face's layers on one rank, taken in turn. What others do to the
// machine meanwhile shows as "stolen", processor time that a hypervisor gave to them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/program.h"
#include "bench/real_steps.h"
#include "bench/turns.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/planner.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

struct Arguments : StepOptions {
  std::int64_t seed = 0;
  std::int32_t ranks = 2;
  std::string hugging_face;
};

/// The repetition in the middle by step time; the faster of two that share the middle.
const Timeline& median_timeline(const Way& way) {
  std::vector<const Timeline*> order;
  for (const StepResult& r : way.results) order.push_back(&r.timeline);
  std::ranges::sort(order, {}, [](const Timeline* t) { return metrics_of(*t).makespan; });
  return *order[(order.size() - 1) / 2];
}

double median_seconds(const Way& way) {
  return median(way.all_seconds());
}

RunnablePlan planned(const Arguments& a, const SequenceLengths& lengths, const Costs& cost,
                     PlannerKind planner, const StageLayout& layout) {
  PlanOutcome outcome =
      plan_step({{.layout = layout, .context = a.context},
                 lengths,
                 {.planner = planner, .effort = kStepEffort, .backward = BackwardKind::kSplit},
                 cost});
  return *std::move(outcome.step);
}

Bytes largest(const std::vector<Bytes>& bytes) {
  return *std::ranges::max_element(bytes);
}

nlohmann::json figures(const Way& way, double t1, std::int32_t ranks) {
  const Timeline& timeline = median_timeline(way);
  const TimelineMetrics m = metrics_of(timeline);
  const double seconds = median_seconds(way);
  const SimulationResult& p = way.planned.prediction;
  nlohmann::json waiting = nlohmann::json::array(), busy = nlohmann::json::array();
  for (const RankMetrics& r : m.ranks) {
    busy.push_back(to_seconds(r.busy));
    waiting.push_back(to_seconds(r.waiting));
  }
  return {{"seconds", seconds},
          {"all_seconds", way.all_seconds()},
          {"efficiency", t1 / (ranks * seconds)},
          {"bubble", m.bubble_ratio},
          {"busy_seconds", busy},
          {"waiting_seconds", waiting},
          {"stolen_seconds", median(way.stolen)},
          {"predicted_seconds", to_seconds(p.makespan)},
          {"predicted_bubble", p.bubble_ratio},
          {"prediction_error", to_seconds(p.makespan) / seconds - 1},
          {"peak_activation_bytes", largest(timeline.peak_activation).count()},
          {"predicted_peak_activation_bytes", largest(p.peak_activation).count()},
          {"forward_micropacks", way.planned.plan.replicas[0].packs.forward.size()},
          {"backward_micropacks", way.planned.plan.replicas[0].packs.backward.size()},
          {"loss", way.results.front().loss}};
}

void print_table(const nlohmann::json& json) {
  Table table({{"", Align::kLeft},
               {"step"},
               {"predicted"},
               {"T1/(n·T)"},
               {"bubble"},
               {"predicted"},
               {"busy, all ranks"},
               {"stolen"},
               {"peak activations"},
               {"predicted"},
               {"MicroPacks F/B"}});
  for (const char* way : {"whole", "packed", "slimpack"}) {
    const auto& f = json[way];
    double busy = 0;
    for (const double b : f["busy_seconds"]) busy += b;
    table.add_row({way, fmt::format("{:.2f} s", f["seconds"].get<double>()),
                   fmt::format("{:.2f} s", f["predicted_seconds"].get<double>()),
                   fmt::format("{:.3f}", f["efficiency"].get<double>()), human_share(f["bubble"]),
                   human_share(f["predicted_bubble"]), fmt::format("{:.2f} s", busy),
                   fmt::format("{:.1f} s", f["stolen_seconds"].get<double>()),
                   human_bytes(Bytes(f["peak_activation_bytes"].get<std::int64_t>())),
                   human_bytes(Bytes(f["predicted_peak_activation_bytes"].get<std::int64_t>())),
                   fmt::format("{}/{}", f["forward_micropacks"].get<int>(),
                               f["backward_micropacks"].get<int>())});
  }
  fmt::print("{}\nslimpack is {:.2f} × as fast as packed\n", table.text(),
             json["speedup"].get<double>());
  if (json.contains("hugging_face_t1_seconds"))
    fmt::print("one rank of Hugging Face's layers: {:.2f} s, {:.3f} × ours\n",
               json["hugging_face_t1_seconds"].get<double>(),
               json["hugging_face_t1_seconds"].get<double>() / json["t1_seconds"].get<double>());
}

/// The step's figures, each within a turn; "hugging_face_over_whole" where that was measured.
nlohmann::json turn_figures(const std::vector<Way>& ways, std::int32_t ranks,
                            const std::vector<double>& hugging_face) {
  const Way &whole = ways[0], &sliced = ways[2];
  nlohmann::json out{
      {"efficiency", by_turn(whole.all_seconds(), sliced.all_seconds(), 1.0 / ranks)},
      {"busy_over_whole", by_turn(sliced.all_busy_seconds(), whole.all_busy_seconds())}};
  if (!hugging_face.empty())
    out["hugging_face_over_whole"] = by_turn(hugging_face, whole.all_seconds());
  return out;
}

void print_turns(const nlohmann::json& turns) {
  fmt::print("\nslimpack, turn by turn: efficiency {}, busy ÷ whole {}\n",
             turns_text(turns["efficiency"]), turns_text(turns["busy_over_whole"]));
  if (turns.contains("hugging_face_over_whole"))
    fmt::print("Hugging Face's layers ÷ ours: {}\n", turns_text(turns["hugging_face_over_whole"]));
}

/// The documents of the step and the model that trains on them.
struct Work {
  std::vector<std::vector<std::int64_t>> documents;
  SequenceLengths lengths;
  Decoder shape;
  StepTokens tokens;

  explicit Work(const Arguments& a)
      : documents(standard_library_documents(a.context, a.step_tokens, a.seed)),
        shape(step_model(a.context, 4)),
        tokens(make_step_tokens(documents, shape.vocab_size)) {
    for (const auto& d : documents) lengths.emplace_back(static_cast<std::int64_t>(d.size()));
  }
};

/// Seconds of the step on one pinned rank of Hugging Face's layers, each document whole, after a
/// short warm-up. Throws InvalidInput when the interpreter cannot run bench/torch_pipelining.py,
/// whose documents are ours.
double hugging_face_seconds(const Arguments& a, std::int64_t layers) {
  const std::string command = fmt::format(
      "{} {}/bench/torch_pipelining.py --layers {} --context {} --step-tokens {} --seed {}",
      a.hugging_face, SLIMPACK_SOURCE_DIR, layers, a.context.count(), a.step_tokens.count(),
      a.seed);
  const auto lines = lines_of(command);
  const auto json = nlohmann::json::parse(lines.empty() ? "" : lines.back(), nullptr, false);
  if (!json.is_object() || !json.contains("wall_s"))
    invalid_input("'{}' printed no time; give an interpreter with torch and transformers", command);
  return json["wall_s"].get<double>();
}

/// Runs all ways in turn. Returns Hugging Face's seconds by turn, where they are asked for.
std::vector<double> measure(const Arguments& a, const Work& work, std::vector<Way>& ways) {
  TrainConfig train;
  train.clip_norm = 0;
  std::vector<double> hugging_face;
  run_in_turn(ways, work.tokens, train, a.repetitions, [&] {
    if (!a.hugging_face.empty())
      hugging_face.push_back(hugging_face_seconds(a, work.shape.num_layers()));
  });
  return hugging_face;
}

void run(const Arguments& a) {
  const Work work(a);
  fmt::print("{} documents, {} tokens, longest {}\n", work.lengths.size(),
             grouped(total_tokens(work.lengths).count()),
             grouped(std::ranges::max_element(work.lengths)->count()));

  const Costs cost = profile_costs(
      {.shape = work.shape, .context = a.context, .ranks = a.ranks, .pin_threads = true});
  fmt::print("{}; largest error of the fit {}\n", cost.origin.source,
             human_share(cost.origin.fit_error));
  const auto engine = [&](std::int32_t stages) {
    return EngineOptions{.shape = work.shape,
                         .layout = balanced_layout(cost, work.lengths, stages),
                         .context = a.context,
                         .pin_threads = true};
  };
  Engine one(engine(1)), many(engine(a.ranks));
  const auto with = [&](PlannerKind planner) {
    return planned(a, work.lengths, cost, planner, many.options().layout);
  };
  std::vector<Way> ways;
  ways.push_back({"whole", &one, whole_documents(work.lengths, cost)});
  ways.push_back({"packed", &many, with(PlannerKind::kPacked)});
  ways.push_back({"slimpack", &many, with(PlannerKind::kSlimpack)});
  const std::vector<double> hugging_face = measure(a, work, ways);

  const double t1 = median_seconds(ways[0]);
  nlohmann::json json{{"t1_seconds", t1},
                      {"ranks", a.ranks},
                      {"context", a.context.count()},
                      {"tokens", total_tokens(work.lengths).count()},
                      {"fit_error", cost.origin.fit_error},
                      {"whole", figures(ways[0], t1, 1)},
                      {"packed", figures(ways[1], t1, a.ranks)},
                      {"slimpack", figures(ways[2], t1, a.ranks)},
                      {"by_turn", turn_figures(ways, a.ranks, hugging_face)}};
  json["speedup"] = median_seconds(ways[1]) / median_seconds(ways[2]);
  if (!hugging_face.empty()) json["hugging_face_t1_seconds"] = median(hugging_face);
  print_table(json);
  print_turns(json["by_turn"]);
  if (!a.json.empty()) write_file(a.json, json.dump(2) + "\n");
}

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"One training step of real documents on one rank, packed, and sliced.",
               "end_to_end"};
  slimpack::Arguments arguments;
  slimpack::add_step_options(app, arguments);
  app.add_option("--seed", arguments.seed, "Which documents")->capture_default_str();
  app.add_option("--hugging-face", arguments.hugging_face,
                 "Python with torch and transformers: also time its layers on one rank");
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::run(arguments); });
}
