#include "slimpack/run/step_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/report/training_curve.h"

namespace slimpack {
namespace {

/// A shorter wait is that of handing over a plan that was ready.
constexpr Nanos kRealWait(1'000'000);
/// A smaller share of a peak is that of a processor with the figures of a GPU.
constexpr double kSmallShare = 0.001;

std::vector<std::int64_t> counts(const std::vector<Bytes>& bytes) {
  std::vector<std::int64_t> result;
  for (const Bytes b : bytes) result.push_back(b.count());
  return result;
}

PartTimes mean_of(const std::vector<RankMetrics>& ranks) {
  const auto mean = [&](Nanos RankMetrics::*part) {
    Nanos sum;
    for (const RankMetrics& rank : ranks) sum += rank.*part;
    return ranks.empty() ? sum : sum / std::ssize(ranks);
  };
  return {mean(&RankMetrics::forward), mean(&RankMetrics::backward), mean(&RankMetrics::optimizer),
          mean(&RankMetrics::reduction), mean(&RankMetrics::waiting)};
}

/// "36.8 k tok in 8 docs". Targets are told where a mask leaves some out: else all tokens are, but
/// the first of each sequence.
std::string tokens_text(const StepFigures& f) {
  const std::string targets =
      f.targets < f.tokens.count() - f.sequences
          ? fmt::format(" ({} targets)", human_count(static_cast<double>(f.targets)))
          : "";
  return fmt::format("  {} tok{} in {}", human_count(static_cast<double>(f.tokens.count())),
                     targets, counted(f.documents, "doc"));
}

}  // namespace

double StepFigures::tokens_per_second() const {
  return static_cast<double>(tokens.count()) / to_seconds(step_time);
}

StepFigures figures_of(std::span<const DocumentSequence> sequences, const Costs& cost,
                       const SimulationResult& predicted, const Timeline& measured) {
  const TimelineMetrics metrics = metrics_of(measured);
  StepFigures f;
  f.documents = document_count(sequences);
  f.sequences = static_cast<std::int64_t>(sequences.size());
  const SequenceLengths lengths = lengths_of(sequences);
  f.tokens = total_tokens(lengths);
  f.longest = std::ranges::max(lengths);
  f.step_time = metrics.makespan;
  f.mfu =
      mfu_of(model_flops(cost, lengths), metrics.makespan, measured.ranks, cost.device.peak_flops);
  f.parts = mean_of(metrics.ranks);
  f.predicted_time = predicted.makespan;
  f.bubble = metrics.bubble_ratio;
  f.predicted_bubble = predicted.bubble_ratio;
  f.peak_activation = measured.peak_activation;
  f.predicted_peak_activation = predicted.peak_activation;
  return f;
}

Bytes largest(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? Bytes(0) : *std::ranges::max_element(bytes);
}

nlohmann::ordered_json to_json(const StepFigures& f) {
  nlohmann::ordered_json line{
      {"step", f.step},
      {"loss", f.loss},
      {"gradient_norm", f.gradient_norm},
      {"learning_rate", f.learning_rate},
      {"documents", f.documents},
      {"sequences", f.sequences},
      {"tokens", f.tokens.count()},
      {"targets", f.targets},
      {"padding", 0},  // nothing is ever padded; other trainers' lines have such a figure
      {"left_out", f.left_out},
      {"longest", f.longest.count()},
      {"clock", to_string(f.clock)},
      {"step_ns", f.step_time.count()},
      {"predicted_step_ns", f.predicted_time.count()},
      {"tokens_per_second", f.tokens_per_second()},
      {"bubble", f.bubble},
      {"predicted_bubble", f.predicted_bubble},
      {"forward_ns", f.parts.forward.count()},
      {"backward_ns", f.parts.backward.count()},
      {"optimizer_ns", f.parts.optimizer.count()},
      {"reduction_ns", f.parts.reduction.count()},
      {"waiting_ns", f.parts.waiting.count()},
      {"peak_activation_bytes", counts(f.peak_activation)},
      {"predicted_peak_activation_bytes", counts(f.predicted_peak_activation)},
      {"reading_ns", f.reading_time.count()},
      {"planning_ns", f.planning_time.count()},
      {"planning_wait_ns", f.planning_wait.count()}};
  if (f.mfu) line["mfu"] = *f.mfu;
  return line;
}

nlohmann::ordered_json to_json(const EvaluationFigures& f) {
  nlohmann::ordered_json line{{"step", f.step},
                              {kEvaluationLoss, f.result.loss},
                              {"evaluation_documents", f.result.documents},
                              {"evaluation_tokens", f.result.tokens.count()},
                              {"evaluation_ns", f.result.time.count()}};
  if (!f.result.name.empty()) line[kEvaluationName] = f.result.name;
  for (const LengthLoss& part : f.result.by_length)
    line["evaluation_by_length"].push_back({{"from", part.lengths.from.count()},
                                            {"below", part.lengths.below.count()},
                                            {"loss", part.loss},
                                            {"sequences", part.sequences},
                                            {"tokens", part.tokens.count()}});
  return line;
}

std::string step_line(const StepFigures& f, const StepPlace& place, int columns) {
  const std::int64_t left = place.steps - f.step;
  const std::string time =
      left > 0 ? human_duration(place.elapsed / (f.step - place.done_before) * left) + " left"
               : "took " + human_duration(place.elapsed);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}  {}", f.step,
                                 std::to_string(place.steps).size(), place.steps, f.loss, time);
  // The most important part comes first. A narrow terminal drops the parts that do not fit.
  const std::array<std::string, 7> parts{
      fmt::format("  {} tok/s", human_count(f.tokens_per_second())),
      f.mfu.value_or(0) < kSmallShare ? "" : fmt::format("  MFU {}", human_share(*f.mfu)),
      fmt::format("  bubble {}", human_share(f.bubble)),
      fmt::format(" (predicted {})", human_share(f.predicted_bubble)),
      fmt::format("  peak {}", human_bytes(largest(f.peak_activation))),
      tokens_text(f),
      f.planning_wait < kRealWait
          ? ""
          : fmt::format("  waited {} for the plan", human_duration(f.planning_wait))};
  for (const std::string& part : parts) {
    if (text_width(line) + text_width(part) > static_cast<std::size_t>(columns)) break;
    line += part;
  }
  return line;
}

std::string evaluation_line(const EvaluationFigures& f) {
  std::string line =
      fmt::format("evaluation{}{} after step {}: loss {:.4f} on {} tok in {}, took {}",
                  f.result.name.empty() ? "" : " of ", f.result.name, f.step, f.result.loss,
                  human_count(static_cast<double>(f.result.tokens.count())),
                  counted(f.result.documents, "doc"), human_duration(f.result.time));
  if (f.result.by_length.size() < 2) return line;
  for (const LengthLoss& part : f.result.by_length) {
    const LengthRange& lengths = part.lengths;
    const std::string range = lengths.from == Tokens(0)
                                  ? fmt::format("below {}", binary_count(lengths.below.count()))
                                  : fmt::format("{}–{}", binary_count(lengths.from.count()),
                                                binary_count(lengths.below.count()));
    line += fmt::format("{} {} {:.4f}", &part == &f.result.by_length.front() ? "; by length:" : ",",
                        range, part.loss);
  }
  return line;
}

}  // namespace slimpack
