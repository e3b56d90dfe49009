// One training step of a Llama on real lengths on one GPU: step time, tokens a second, model FLOPs
// utilisation and peak memory beside their predictions, for fixed packing, for sliced MicroPacks,
// and for those with rows in pinned host memory where that is near; and by programs in Python which
// operators take the time, how exact bf16 gradients are, and Hugging Face's model with packed
// documents on the same GPU, as it comes and tuned. Without a GPU it prints the predictions for an
// H100.
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "bench/gpu_report.h"
#include "bench/program.h"
#include "bench/turns.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/median.h"
#include "slimpack/base/random.h"
#include "slimpack/data/lengths.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

struct Arguments {
  std::string device = "cuda";
  std::string lengths = SLIMPACK_SOURCE_DIR "/bench/data/wlbllm_lengths.txt";
  std::string model = SLIMPACK_SOURCE_DIR "/bench/data/llama_1b.json";
  std::int64_t context = 32'768;
  std::int64_t step_tokens = 262'144;
  double peak_flops = 989e12;  ///< bf16, dense: H100 and H200
  int repetitions = 3;
  bool deterministic = false;  ///< Hugging Face's rounds as it comes, too
  std::string hugging_face = SLIMPACK_SOURCE_DIR "/.venv/bin/python";
  std::string json = "runs/gpu.json";
  std::string page = "runs/gpu.md";
};

/// Documents of the list, truncated at the context, until the step holds its tokens.
SequenceLengths lengths_of(const Arguments& a) {
  SequenceLengths lengths;
  std::int64_t total = 0;
  for (const Tokens length : read_lengths(a.lengths)) {
    lengths.push_back(std::min(length, Tokens(a.context)));
    total += lengths.back().count();
    if (total >= a.step_tokens) return lengths;
  }
  invalid_input("{} holds {} tokens, fewer than --step-tokens {}; ask for fewer", a.lengths, total,
                a.step_tokens);
}

StepTokens tokens_of(const SequenceLengths& lengths, std::int64_t vocabulary) {
  Rng rng(1);
  std::vector<std::vector<std::int64_t>> documents;
  for (const Tokens length : lengths) {
    auto& tokens = documents.emplace_back(static_cast<std::size_t>(length.count()));
    for (std::int64_t& token : tokens)
      token = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(vocabulary)));
  }
  return make_step_tokens(documents, vocabulary);
}

/// The fastest step that fits the device's memory, of these recomputations.
RunnablePlan planned(const SequenceLengths& lengths, const Costs& cost, PlannerKind planner,
                     const Arguments& a, std::vector<Recompute> recompute) {
  const StageLayout layout = balanced_layout(cost, lengths, 1);
  PlanOutcome outcome = plan_step({{.layout = layout,
                                    .memory_cap = activation_cap(cost, layout, 1),
                                    .context = Tokens(a.context)},
                                   lengths,
                                   {.planner = planner, .recompute = std::move(recompute)},
                                   cost});
  if (outcome.does_not_fit)
    throw InvalidInput(outcome.does_not_fit->message("give a smaller --model or --context"));
  return *std::move(outcome.step);
}

/// The figures of the job that a Python program beside this one prints.
nlohmann::json from_python(const Arguments& a, const SequenceLengths& lengths,
                           const std::string& program, const std::string& options) {
  nlohmann::json request{{"model", a.model},
                         {"context", a.context},
                         {"device", a.device},
                         {"build", SLIMPACK_BUILD_DIR},
                         {"lengths", nlohmann::json::array()}};
  for (const Tokens length : lengths) request["lengths"].push_back(length.count());
  const auto file = std::filesystem::temp_directory_path() / "slimpack_bench_gpu.json";
  write_file(file, request.dump());
  const auto lines = lines_of(fmt::format("{} {}/bench/{} {}{}", a.hugging_face,
                                          SLIMPACK_SOURCE_DIR, program, file.string(), options));
  std::filesystem::remove(file);
  auto json = nlohmann::json::parse(lines.empty() ? "" : lines.back(), nullptr, false);
  if (!json.is_object())
    invalid_input(
        "'{} bench/{}' printed no figures; give a Python with torch and transformers, or "
        "--hugging-face '' to leave it out",
        a.hugging_face, program);
  return json;
}

nlohmann::json predicted_figures(const std::string& name, const RunnablePlan& planned) {
  const SimulationResult& p = planned.prediction;
  return {{"way", name},
          {"recompute", describe(planned.plan.recompute)},
          {"predicted_seconds", to_seconds(p.makespan)},
          {"predicted_peak_activation_bytes", p.peak_activation.front().count()}};
}

nlohmann::json figures(const Way& way, const Arguments& a, const Decoder& shape,
                       const SequenceLengths& lengths) {
  const std::vector<double> all_seconds = way.all_seconds();
  const double seconds = median(all_seconds);
  Bytes peak{0};
  for (const StepResult& r : way.results) peak = std::max(peak, r.timeline.peak_activation.front());
  Costs cost;
  cost.shape = shape;
  nlohmann::json json = predicted_figures(way.name, way.planned);
  json["seconds"] = seconds;
  json["all_seconds"] = all_seconds;
  json["tokens_per_second"] = static_cast<double>(total_tokens(lengths).count()) / seconds;
  json["mfu"] = model_flops(cost, lengths).count() / (seconds * a.peak_flops);
  json["peak_activation_bytes"] = peak.count();
  return json;
}

struct NamedPlan {
  std::string name;
  RunnablePlan planned;
};

std::vector<NamedPlan> plans_of(const SequenceLengths& lengths, const Costs& cost,
                                const Arguments& a) {
  const std::vector<Recompute> kept{Recompute::kNothing, Recompute::kElementwise,
                                    Recompute::kAttention, Recompute::kMlp, Recompute::kFull};
  std::vector<NamedPlan> plans{
      {"packed", planned(lengths, cost, PlannerKind::kPacked, a, kept)},
      {"slimpack", planned(lengths, cost, PlannerKind::kSlimpack, a, kept)}};
  if (cost.host.per_byte > 0)
    plans.push_back({"slimpack, offloading",
                     planned(lengths, cost, PlannerKind::kSlimpack, a, {Recompute::kOffload})});
  return plans;
}

nlohmann::json job_figures(const Arguments& a, const Decoder& shape,
                           const SequenceLengths& lengths) {
  return {{"device", nullptr},
          {"parameters", static_cast<double>(shape.parameters())},
          {"documents", lengths.size()},
          {"tokens", total_tokens(lengths).count()},
          {"longest", std::ranges::max_element(lengths)->count()},
          {"repetitions", a.repetitions},
          {"deterministic", a.deterministic},
          {"ways", nlohmann::json::array()}};
}

/// The figures of all ways that the benchmark would run on a GPU, with the predictions for an H100.
nlohmann::json predict_all(const Arguments& a, const Decoder& shape,
                           const SequenceLengths& lengths) {
  const HardwareSpec hardware = read_hardware(SLIMPACK_SOURCE_DIR "/hardware/h100-fa2.toml");
  nlohmann::json json = job_figures(a, shape, lengths);
  json["hardware"] = hardware.name;
  const Costs cost = with_gpu(cost_from_hardware(shape, Dtype::kBf16, hardware), hardware);
  for (const NamedPlan& plan : plans_of(lengths, cost, a))
    json["ways"].push_back(predicted_figures(plan.name, plan.planned));
  return json;
}

nlohmann::json measure(const Arguments& a, const Decoder& shape, const SequenceLengths& lengths,
                       at::Device device) {
  ProfileOptions profile{.shape = shape,
                         .dtype = Dtype::kBf16,
                         .context = Tokens(a.context),
                         .device = device,
                         .deterministic = a.deterministic};
  if (!device.is_cpu()) {
    profile.gpu = gpu_memory(HardwareSpec());
    profile.gpu->fused_kernels = fused::are_there_on(device);
  }
  const Costs cost = profile_costs(profile);
  EngineOptions options;
  options.shape = shape;
  options.dtype = Dtype::kBf16;
  options.layout = balanced_layout(cost, lengths, 1);
  options.context = Tokens(a.context);
  options.device = device;
  options.deterministic = a.deterministic;
  auto engine = std::make_unique<Engine>(options);
  std::vector<Way> ways;
  for (NamedPlan& plan : plans_of(lengths, cost, a))
    ways.push_back({std::move(plan.name), engine.get(), std::move(plan.planned)});
  const StepTokens tokens = tokens_of(lengths, shape.vocab_size);
  run_in_turn(ways, tokens, TrainConfig(), a.repetitions);
  nlohmann::json json = job_figures(a, shape, lengths);
  json["device"] = device.str();
  for (const Way& way : ways) json["ways"].push_back(figures(way, a, shape, lengths));
  // Hugging Face's process needs the memory: what the engine has, and what libtorch would keep.
  engine.reset();
  if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->emptyCache();
  return json;
}

void write_figures(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  const auto folder = std::filesystem::path(file).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  write_file(file, text);
}

void run(const Arguments& a) {
  const Decoder shape = read_decoder(a.model);
  const SequenceLengths lengths = lengths_of(a);
  const DeviceKind kind = a.device == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda;
  const bool there = kind == DeviceKind::kCpu || has_cuda_device();
  nlohmann::json json =
      there ? measure(a, shape, lengths, find_device(kind)) : predict_all(a, shape, lengths);
  std::size_t printed = 0;
  const auto report = [&] {
    const std::vector<ReportSection> sections = report_sections(json);
    fmt::print("{}", terminal_text(std::span(sections).subspan(printed)));
    printed = sections.size();
    write_figures(a.json, json.dump(2) + "\n");
    write_figures(a.page, page_text(sections));
  };
  report();  // before Python runs, which may lack a library
  if (!there || a.hugging_face.empty()) return;
  for (const auto& [name, program, options] : std::vector<std::array<std::string, 3>>{
           {"operators", "gpu_operators.py", ""},
           {"gradients", "gpu_gradients.py", ""},
           {"hugging_face", "gpu_hugging_face.py", ""},
           {"hugging_face_tuned", "gpu_hugging_face.py", " --tuned"}}) {
    json[name] = from_python(a, lengths, program, options);
    report();
  }
}

void add_options(CLI::App& app, Arguments& a) {
  const auto count = [&](const char* name, std::int64_t& value, const char* help) {
    app.add_option(name, value, help)->capture_default_str()->check(CLI::PositiveNumber);
  };
  app.add_option("--device", a.device, "cuda, or cpu to try the program")
      ->capture_default_str()
      ->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--model", a.model,
                 "The model's config.json; without it a Llama of 1.2 billion parameters");
  app.add_option("--lengths", a.lengths, "Documents' lengths, one a line");
  count("--context", a.context, "Documents are truncated here");
  count("--step-tokens", a.step_tokens, "Documents are taken up to this");
  app.add_option("--peak-flops", a.peak_flops, "Of the GPU in bf16, per second")
      ->capture_default_str();
  app.add_option("--repetitions", a.repetitions, "Medians are taken over these")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag(
      "--deterministic", a.deterministic,
      "The same bits in every run, as train.deterministic; Hugging Face's steps stay as they are");
  app.add_option(
         "--hugging-face", a.hugging_face,
         "Python with torch and transformers, which times operators and Hugging Face's model\n"
         "and compares gradients; '' leaves these out")
      ->capture_default_str();
  app.add_option("--json", a.json, "Write the figures here")->capture_default_str();
  app.add_option("--page", a.page, "Write what is printed here, in Markdown")
      ->capture_default_str();
}

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"One training step of a Llama on real lengths on one GPU.", "gpu"};
  slimpack::Arguments arguments;
  slimpack::add_options(app, arguments);
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::run(arguments); });
}
