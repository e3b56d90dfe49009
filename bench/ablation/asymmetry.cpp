#include "bench/ablation/asymmetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "bench/planner/published_cost.h"
#include "bench/planner/workloads.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr int kSeeds = 8;
constexpr std::size_t kSequences = 64;
constexpr Tokens kContext{131'072};

/// A job of the sweep: what varies, and how.
struct Point {
  std::string varied;
  std::string value;
  std::function<void(StepJob&)> apply;
};

StepJob usual_job(std::uint64_t seed) {
  return {setting_b_cost(),
          {.layout = equal_stages(kSettingBStages)},
          log_normal_lengths(seed, kSequences, kContext),
          {.backward = BackwardKind::kSplit}};
}

std::vector<Point> points() {
  std::vector<Point> out{{"nothing", "", [](StepJob&) {}}};
  out.push_back(
      {"backwards", "whole", [](StepJob& job) { job.choices.backward = BackwardKind::kWhole; }});
  for (const int most : {1, 2, 4, 8, 16})
    out.push_back({"MicroPacks a stage", fmt::format("≤ {}", most), [=](StepJob& job) {
                     job.choices.search.packs = {.per_stage = most, .per_longest = 0};
                   }});
  for (const double times : {2.0, 1.5, 1.2, 1.0})
    out.push_back({"memory ÷ longest", fmt::format("{:.1f}", times),
                   [=](StepJob& job) { cap_at(job, times); }});
  for (const double times : {1.5, 1.0})
    out.push_back({"memory, whole backwards", fmt::format("{:.1f}", times), [=](StepJob& job) {
                     cap_at(job, times);
                     job.choices.backward = BackwardKind::kWhole;
                   }});
  for (const std::int32_t stages : {2, 8, 16})
    out.push_back({"stages", fmt::format("{}", stages),
                   [=](StepJob& job) { job.job.layout = equal_stages(stages); }});
  for (const std::size_t sequences : {8, 16, 32, 128})
    out.push_back({"sequences", fmt::format("{}", sequences), [=](StepJob& job) {
                     job.lengths.resize(std::min(sequences, kSequences));
                     for (std::size_t i = kSequences; i < sequences; ++i)
                       job.lengths.push_back(job.lengths[i - kSequences]);
                   }});
  return out;
}

}  // namespace

Ablation run_asymmetry() {
  const std::vector<Point> all = points();
  Progress progress(stderr, progress_style(stderr), "asymmetry",
                    static_cast<std::int64_t>(all.size()));
  Table table(
      {{"varied", Align::kLeft}, {"to"}, {"mean"}, {"least"}, {"most"}, {"asymmetric alone"}});
  nlohmann::json json = nlohmann::json::array();
  for (const Point& point : all) {
    std::vector<PlannedJob> both, symmetric, asymmetric;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      StepJob job = usual_job(seed);
      point.apply(job);
      both.push_back(planned(job));
      symmetric.push_back(planned(with_cuts(job, false)));
      asymmetric.push_back(planned(with_cuts(job, true)));
    }
    const Worth against = worth_of(asymmetric, symmetric);
    const Worth alone = worth_of(both, asymmetric);
    const auto percent = [](double ratio) { return fmt::format("{:+.2f}%", 100 * (ratio - 1)); };
    table.add_row({point.varied, point.value, percent(against.mean), percent(against.least),
                   percent(against.most), percent(alone.mean)});
    json.push_back({{"varied", point.varied},
                    {"value", point.value},
                    {"symmetric", to_json(against)},
                    {"asymmetric", to_json(alone)}});
    progress.advance();
  }
  progress.finish();
  return {table.text(), json};
}

}  // namespace slimpack::bench
