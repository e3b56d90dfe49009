#include "slimpack/report/run_bill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/base/units.h"

namespace slimpack {
namespace {

double gpu_hours(const RunTerms& terms, const RunSpeed& run) {
  return run_hours(terms, run) * static_cast<double>(terms.ranks);
}

double more_than(const RunTerms& terms, const RunSpeed& run, const RunSpeed& first) {
  return run_hours(terms, run) / run_hours(terms, first) - 1;
}

/// Runs of more than a century are all alike.
std::string hours_text(double hours) {
  constexpr double kCentury = 24 * 365.25 * 100;
  if (hours > kCentury) return "> 100 years";
  return human_duration(Nanos(std::llround(hours * 3600e9)));
}

std::string more_text(double more) {
  return fmt::format("{:+.1f}%", more * 100);
}

}  // namespace

std::vector<RunSpeed> fastest_behind_first(std::vector<RunSpeed> runs) {
  if (!runs.empty())
    std::stable_sort(runs.begin() + 1, runs.end(), [](const RunSpeed& a, const RunSpeed& b) {
      return a.tokens_per_second > b.tokens_per_second;
    });
  return runs;
}

double run_hours(const RunTerms& terms, const RunSpeed& speed) {
  return terms.tokens / speed.tokens_per_second / 3600;
}

std::string bill_text(const RunBill& bill, int columns) {
  const auto& [terms, runs, error] = bill;
  if (runs.empty()) return "";
  const bool several_steps =
      std::ranges::any_of(runs, [](const RunSpeed& run) { return run.worst_step.has_value(); });
  std::vector<Column> titles{{"a run with", Align::kLeft}, {"takes"}, {"GPU-hours"}, {"more"}};
  if (terms.price) titles.emplace_back("costs");
  if (several_steps) titles.push_back({"worst step ÷ mean", Align::kRight, 1});
  Table table(std::move(titles));
  for (const RunSpeed& run : runs) {
    const double hours = gpu_hours(terms, run);
    std::vector<std::string> row{
        run.name, hours_text(run_hours(terms, run)), human_count(hours),
        &run == &runs.front() ? "" : more_text(more_than(terms, run, runs.front()))};
    if (terms.price) row.push_back(human_count(hours * *terms.price));
    if (several_steps) row.push_back(run.worst_step ? fmt::format("{:.2f}", *run.worst_step) : "");
    table.add_row(std::move(row));
  }
  const std::string price = terms.price ? fmt::format(", each {:.2f} an hour", *terms.price) : "";
  const double hours = gpu_hours(terms, runs.front()), off = error.time / 100;
  return folded(fmt::format("A run of {} tokens on {}{}:", human_count(terms.tokens),
                            counted(terms.ranks, "GPU"), price),
                columns) +
         "\n\n" + table.text(columns) + "\n" +
         folded(fmt::format("Predicted times are {} off on average: the first run takes {} to {} "
                            "GPU-hours. Stops and restarts come on top.",
                            time_range(error), human_count(hours * (1 - off)),
                            human_count(hours * (1 + off))),
                columns) +
         "\n";
}

nlohmann::ordered_json to_json(const RunBill& bill) {
  const auto& [terms, runs, error] = bill;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const RunSpeed& run : runs) {
    const double hours = gpu_hours(terms, run);
    rows.push_back({{"name", run.name},
                    {"hours", run_hours(terms, run)},
                    {"gpu_hours", hours},
                    {"cost", nullptr},
                    {"more", more_than(terms, run, runs.front())},
                    {"worst_step", nullptr}});
    if (terms.price) rows.back()["cost"] = hours * *terms.price;
    if (run.worst_step) rows.back()["worst_step"] = *run.worst_step;
  }
  nlohmann::ordered_json out{{"tokens", terms.tokens},
                             {"ranks", terms.ranks},
                             {"price_per_gpu_hour", nullptr},
                             {"known_error", error.time / 100}};
  if (terms.price) out["price_per_gpu_hour"] = *terms.price;
  out["runs"] = std::move(rows);
  return out;
}

}  // namespace slimpack
