#include "slimpack/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/known_error.h"

namespace slimpack {
namespace {

using Figure = std::function<double(const ComparedPlanner&)>;

/// REQUIRES: every step has figures.
Spread spread(const PlannerSteps& planner, const Figure& figure) {
  std::vector<double> values;
  for (const ComparedPlanner& step : planner.steps) values.push_back(figure(step));
  return step_spread(std::move(values));
}

double makespan(const ComparedPlanner& step) {
  return static_cast<double>(step.figures->makespan.count());
}

/// A rate over all steps: each step counts by its time.
double over_all(const PlannerSteps& planner, const Figure& rate) {
  double sum = 0, seconds = 0;
  for (const ComparedPlanner& step : planner.steps) {
    const double taken = to_seconds(step.figures->makespan);
    sum += rate(step) * taken;
    seconds += taken;
  }
  return sum / seconds;
}

double tokens_per_second(const ComparedPlanner& step) {
  return step.figures->tokens_per_second;
}

/// REQUIRES: the costs have a peak.
double mfu(const ComparedPlanner& step) {
  return *step.figures->mfu;
}

bool has_mfu(const PlannerSteps& planner) {
  return std::ranges::all_of(planner.steps, [](const ComparedPlanner& step) {
    return step.figures && step.figures->mfu.has_value();
  });
}

std::string duration(double nanoseconds) {
  return human_duration(Nanos(std::llround(nanoseconds)));
}

std::string bytes(double count) {
  return human_bytes(Bytes(std::llround(count)));
}

std::size_t misfits(const PlannerSteps& planner, const std::optional<Bytes>& cap) {
  return static_cast<std::size_t>(std::ranges::count_if(
      planner.steps, [&](const ComparedPlanner& step) { return !fits(step, cap); }));
}

bool has_figures(const PlannerSteps& planner) {
  return std::ranges::all_of(planner.steps,
                             [](const ComparedPlanner& step) { return step.figures.has_value(); });
}

/// Empty if ours or every other planner cannot run a step.
std::string conclusion(const std::vector<PlannerSteps>& planners, const std::optional<Bytes>& cap) {
  std::vector<PlannerTime> times;
  for (const PlannerSteps& planner : planners)
    if (misfits(planner, cap) == 0)
      times.push_back({planner.planner, spread(planner, makespan).mean});
  const std::optional<SpeedUp> speed_up = our_speed_up(times);
  if (!speed_up) return "";
  return fmt::format(
      "\nOn average, slimpack trains {:.2f} times as fast as {}, the fastest other planner that "
      "runs every step{}\n",
      speed_up->times, speed_up->other, cap ? " within the memory cap" : "");
}

}  // namespace

std::string steps_text(const PlannerSteps& steps, int columns) {
  Table table({{"", Align::kLeft}, {"mean"}, {"p50"}, {"p95"}, {"worst"}});
  const bool few = steps.steps.size() < kFewestForPercentile;
  const auto add_spread = [&](const char* name, const Spread& found, const auto& text) {
    table.add_row(
        {name, text(found.mean), text(found.p50), few ? "" : text(found.p95), text(found.worst)});
  };
  const auto add = [&](const char* name, const Figure& figure, const auto& text) {
    add_spread(name, spread(steps, figure), text);
  };
  /// The worst rate is the least one.
  const auto add_rate = [&](const char* name, const Figure& rate, const auto& text) {
    Spread found = spread(steps, [&](const ComparedPlanner& step) { return -rate(step); });
    found.mean = -over_all(steps, rate);
    add_spread(name, found, [&](double negative) { return text(-negative); });
  };
  add("step", makespan, duration);
  add_rate("tokens/s", tokens_per_second, human_count);
  if (has_mfu(steps)) add_rate("MFU", mfu, human_share);
  add(
      "bubble", [](const auto& step) { return step.figures->bubble; }, human_share);
  add(
      "gap", [](const auto& step) { return step.figures->gap; }, human_share);
  add(
      "peak activation",
      [](const auto& step) { return static_cast<double>(step.figures->peak.count()); }, bytes);
  add(
      "planned in", [](const auto& step) { return static_cast<double>(step.planning.count()); },
      duration);
  return table.text(columns);
}

std::string steps_comparison_text(const std::vector<PlannerSteps>& planners,
                                  const std::optional<Bytes>& cap, int columns) {
  Table table({{"planner", Align::kLeft},
               {"tokens/s"},
               {"MFU", Align::kRight, 1},
               {"mean step"},
               {"p50", Align::kRight, 2},
               {"p95"},
               {"worst"},
               {"do not fit"},
               {"planned in", Align::kRight, 3}});
  for (const PlannerSteps& planner : planners) {
    const std::size_t lost = misfits(planner, cap);
    std::vector<std::string> row{
        planner.planner, "", "", "", "", "", "", lost > 0 ? fmt::format("{}", lost) : ""};
    if (has_figures(planner)) {
      const Spread found = spread(planner, makespan);
      row = {planner.planner,
             human_count(over_all(planner, tokens_per_second)),
             has_mfu(planner) ? human_share(over_all(planner, mfu)) : "",
             duration(found.mean),
             duration(found.p50),
             planner.steps.size() < kFewestForPercentile ? "" : duration(found.p95),
             duration(found.worst),
             row.back()};
    }
    row.push_back(duration(spread(planner, [](const auto& step) {
                             return static_cast<double>(step.planning.count());
                           }).mean));
    table.add_row(std::move(row));
  }
  return table.text(columns) + folded(conclusion(planners, cap), columns);
}

std::vector<RunSpeed> run_speeds(const std::vector<PlannerSteps>& planners,
                                 const std::optional<Bytes>& cap) {
  std::vector<RunSpeed> runs;
  for (const PlannerSteps& planner : planners) {
    if (misfits(planner, cap) > 0) continue;
    const Spread times = spread(planner, makespan);
    runs.push_back(
        {planner.planner, over_all(planner, tokens_per_second), times.worst / times.mean});
  }
  return fastest_behind_first(std::move(runs));
}

nlohmann::json steps_json(const std::vector<PlannerSteps>& planners, const Costs& cost) {
  nlohmann::json all = nlohmann::json::array();
  for (const PlannerSteps& planner : planners) {
    nlohmann::json steps = nlohmann::json::array();
    for (const ComparedPlanner& step : planner.steps) steps.push_back(to_json(step));
    nlohmann::json makespans;
    if (has_figures(planner)) makespans = to_json(spread(planner, makespan));
    all.push_back({{"planner", planner.planner},
                   {"steps", std::move(steps)},
                   {"makespan_ns", std::move(makespans)}});
  }
  return {{"format", "slimpack-steps"},
          {"version", 1},
          {"known_error", to_json(known_error(cost))},
          {"planners", std::move(all)}};
}

}  // namespace slimpack
