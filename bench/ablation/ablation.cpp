#include "bench/ablation/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

/// Sums over steps, to compare what planning takes.
struct Effort {
  double seconds = 0;
  double candidates = 0;

  void add(const std::vector<PlannedJob>& jobs) {
    for (const PlannedJob& job : jobs) {
      seconds += job.seconds;
      candidates += static_cast<double>(job.candidates);
    }
  }
};

/// One switch over all settings.
struct Row {
  std::vector<std::optional<Worth>> worth;  ///< by setting; absent: it does not matter there
  Effort on, off;                           ///< where it matters
};

std::string percent(double ratio) {
  const double more = 100 * (ratio - 1);
  return fmt::format("{:.{}f}", more, more < 10 ? 2 : 1);
}

std::string cell(const std::optional<Worth>& worth) {
  if (!worth) return "";
  return worth->lost > 0 ? fmt::format("{} lost", worth->lost) : percent(worth->mean);
}

/// Of the steps of all settings.
std::string worst_cell(const Row& row) {
  double most = 0;
  for (const auto& worth : row.worth)
    if (worth) most = std::max(most, worth->most);
  return most > 0 ? percent(most) : "";
}

std::vector<PlannedJob> plan_all(const Setting& setting, const Switch* off) {
  std::vector<PlannedJob> out;
  for (const StepJob& job : setting.jobs) {
    StepJob step = job;
    if (off) off->apply(step);
    out.push_back(planned(step));
  }
  return out;
}

Row measured(const std::vector<Setting>& settings, const std::vector<std::vector<PlannedJob>>& on,
             const Switch& off) {
  Row row;
  for (std::size_t s = 0; s < settings.size(); ++s) {
    row.worth.emplace_back();
    if (!off.matters(settings[s].jobs.front())) continue;
    const std::vector<PlannedJob> without = plan_all(settings[s], &off);
    row.worth.back() = worth_of(on[s], without);
    row.on.add(on[s]);
    row.off.add(without);
  }
  return row;
}

nlohmann::json to_json(const std::vector<Setting>& settings, const Switch& off, const Row& row) {
  nlohmann::json by_setting = nlohmann::json::object();
  for (std::size_t s = 0; s < settings.size(); ++s)
    if (row.worth[s]) by_setting[settings[s].name] = to_json(*row.worth[s]);
  return {{"group", off.group},
          {"name", off.name},
          {"settings", by_setting},
          {"planning", row.off.seconds / row.on.seconds},
          {"candidates", row.off.candidates / row.on.candidates}};
}

}  // namespace

nlohmann::json to_json(const Worth& worth) {
  return {{"steps", worth.steps},
          {"mean", worth.mean},
          {"most", worth.most},
          {"least", worth.least},
          {"lost", worth.lost}};
}

PlannedJob planned(const StepJob& step) {
  PlannedJob out;
  const std::clock_t start = std::clock();
  const PlanOutcome outcome =
      plan_step(step.job, step.lengths, step.choices, step.cost, [&] { ++out.candidates; });
  out.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (outcome.step) out.makespan = outcome.step->prediction.makespan;
  return out;
}

Worth worth_of(const std::vector<PlannedJob>& on, const std::vector<PlannedJob>& off) {
  Worth worth;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < on.size(); ++i) {
    if (!on[i].makespan) continue;
    if (off[i].makespan)
      ratios.push_back(to_seconds(*off[i].makespan) / to_seconds(*on[i].makespan));
    else
      ++worth.lost;
  }
  worth.steps = static_cast<int>(ratios.size());
  if (ratios.empty()) return worth;
  worth.mean = 0;
  for (const double ratio : ratios) worth.mean += ratio / worth.steps;
  worth.most = *std::ranges::max_element(ratios);
  worth.least = *std::ranges::min_element(ratios);
  return worth;
}

Ablation run_ablation(const std::vector<Setting>& settings, const std::vector<Switch>& switches) {
  Progress progress(stderr, progress_style(stderr), "ablation",
                    static_cast<std::int64_t>(switches.size()) + 1);
  std::vector<Column> columns{{"off or changed", Align::kLeft}};
  nlohmann::json steps;
  std::vector<std::vector<PlannedJob>> on;
  for (const Setting& setting : settings) {
    columns.push_back({setting.name});
    steps[setting.name] = setting.jobs.size();
    on.push_back(plan_all(setting, nullptr));
  }
  progress.advance();
  columns.push_back({"worst"});
  columns.push_back({"plan"});
  Table table(std::move(columns));
  nlohmann::json rows = nlohmann::json::array();
  std::string group;
  for (const Switch& off : switches) {
    if (off.group != group) {
      std::vector<std::string> title(settings.size() + 3);
      title.front() = group = off.group;
      table.add_row(std::move(title));
    }
    const Row row = measured(settings, on, off);
    std::vector<std::string> cells{"  " + off.name};
    for (const auto& worth : row.worth) cells.push_back(cell(worth));
    cells.push_back(worst_cell(row));
    cells.push_back(row.on.seconds > 0 ? fmt::format("{:.2f}", row.off.seconds / row.on.seconds)
                                       : "");
    table.add_row(std::move(cells));
    rows.push_back(to_json(settings, off, row));
    progress.advance();
  }
  progress.finish();
  return {table.text(), {{"settings", steps}, {"switches", rows}}};
}

}  // namespace slimpack::bench
