#include "slimpack/report/layout_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/report/plan_report.h"

namespace slimpack {
namespace {

constexpr std::size_t kShown = 10;

std::string layout_text(const ParallelGrid& grid) {
  return fmt::format("{} × {} × {}", grid.tp, grid.pp, grid.dp);
}

/// Settings of a layout beside its ranks: "zero 3", "2 stages a rank, vocabulary spread".
std::string changes_text(const RatedLayout& layout) {
  const ParallelGrid& grid = layout.grid;
  std::vector<std::string> parts;
  if (grid.zero != 1) parts.push_back(fmt::format("zero {}", grid.zero));
  if (grid.stages_per_rank != 1)
    parts.push_back(fmt::format("{} stages a rank", grid.stages_per_rank));
  if (grid.spread_vocabulary) parts.emplace_back("vocabulary spread");
  if (layout.splits_backwards) parts.emplace_back("backwards split");
  return fmt::format("{}", fmt::join(parts, ", "));
}

Spread makespans(const RatedLayout& layout) {
  std::vector<double> values;
  for (const LayoutStep& step : layout.steps)
    values.push_back(static_cast<double>(step.makespan.count()));
  return step_spread(std::move(values));
}

Nanos mean(const RatedLayout& layout, const auto& time) {
  Nanos sum;
  for (const LayoutStep& step : layout.steps) sum += time(step);
  return sum / static_cast<std::int64_t>(layout.steps.size());
}

Nanos mean_work(const RatedLayout& layout) {
  return mean(layout, [](const LayoutStep& step) { return step.work; });
}

Nanos mean_end(const RatedLayout& layout) {
  return mean(layout, [](const LayoutStep& step) { return step.end; });
}

Nanos mean_wait(const RatedLayout& layout) {
  return mean(layout, [](const LayoutStep& step) { return step.wait(); });
}

Bytes least_headroom(const RatedLayout& layout) {
  return std::ranges::min(layout.steps, {}, &LayoutStep::headroom).headroom;
}

std::int32_t most_merged(const RatedLayout& layout) {
  return std::ranges::max(layout.steps, {}, &LayoutStep::merged).merged;
}

std::string_view to_string(LayoutOutcome outcome) {
  switch (outcome) {
    case LayoutOutcome::kRated:
      return "rated";
    case LayoutOutcome::kBehind:
      return "behind";
    case LayoutOutcome::kStepTooLarge:
      return "step too large";
    case LayoutOutcome::kModelTooLarge:
      return "model too large";
  }
  return {};
}

struct Shown {
  const LayoutReport* report;
  const RatedLayout* layout;
};

std::vector<Shown> best_layouts(const std::vector<LayoutReport>& reports) {
  std::vector<Shown> best;
  for (const LayoutReport& report : reports)
    for (const RatedLayout& layout : report.layouts)
      if (layout.outcome == LayoutOutcome::kRated) best.push_back({&report, &layout});
  std::ranges::stable_sort(best, std::ranges::greater(), [](const Shown& shown) {
    return shown.report->tokens_per_second(*shown.layout);
  });
  if (best.size() > kShown) best.resize(kShown);
  return best;
}

bool few_steps(const std::vector<LayoutReport>& reports) {
  const std::vector<Shown> best = best_layouts(reports);
  return !best.empty() && best.front().layout->steps.size() < kFewestForPercentile;
}

/// A figure in which searches differ: its title, and its cell for each search.
struct Distinction {
  const char* title;
  std::string (*cell)(const LayoutReport&);
};

std::vector<Distinction> distinctions(const std::vector<LayoutReport>& reports) {
  const std::array<Distinction, 3> all{
      {{"machines", [](const LayoutReport& report) { return report.hardware; }},
       {"context", [](const LayoutReport& report) { return grouped(report.context.count()); }},
       {"step tokens", [](const LayoutReport& report) {
          return human_count(static_cast<double>(report.step_tokens.count()));
        }}}};
  std::vector<Distinction> found;
  for (const Distinction& one : all)
    if (std::ranges::any_of(reports, [&](const LayoutReport& report) {
          return one.cell(report) != one.cell(reports.front());
        }))
      found.push_back(one);
  return found;
}

std::string best_table(const std::vector<LayoutReport>& reports, int columns) {
  std::vector<Column> titles{{"tp × pp × dp", Align::kLeft},
                             {"tokens/s"},
                             {"MFU", Align::kRight, 2},
                             {"mean step"},
                             {few_steps(reports) ? "longest" : "p95", Align::kRight, 3},
                             {"bubble", Align::kRight, 1},
                             {"headroom"},
                             {"merged", Align::kRight, 4},
                             {"computed again", Align::kLeft, 5},
                             {"with", Align::kLeft}};
  const std::vector<Distinction> of_search = distinctions(reports);
  for (std::size_t i = 0; i < of_search.size(); ++i)
    titles.insert(titles.begin() + 1 + static_cast<std::ptrdiff_t>(i), {of_search[i].title});
  Table table(std::move(titles));
  for (const auto& [report, layout] : best_layouts(reports)) {
    const double idle = 1 - to_seconds(mean_work(*layout)) / to_seconds(layout->mean());
    const Spread times = makespans(*layout);
    std::vector<std::string> row{layout_text(layout->grid),
                                 human_count(report->tokens_per_second(*layout)),
                                 layout->mfu() ? human_share(*layout->mfu()) : "",
                                 human_duration(layout->mean()),
                                 human_duration(Nanos(static_cast<std::int64_t>(times.p95))),
                                 human_share(idle),
                                 human_bytes(least_headroom(*layout)),
                                 fmt::to_string(most_merged(*layout)),
                                 describe(layout->steps.front().recompute),
                                 changes_text(*layout)};
    for (std::size_t i = 0; i < of_search.size(); ++i)
      row.insert(row.begin() + 1 + static_cast<std::ptrdiff_t>(i), of_search[i].cell(*report));
    table.add_row(std::move(row));
  }
  return table.text(columns);
}

/// "24 layouts: 12 planned, 7 behind by their bounds, …".
std::string counts_text(const LayoutReport& report) {
  const auto count = [&](LayoutOutcome outcome) {
    return std::ranges::count(report.layouts, outcome, &RatedLayout::outcome);
  };
  std::string text =
      fmt::format("{} layouts: {} planned", report.layouts.size(), count(LayoutOutcome::kRated));
  for (const auto& [outcome, what] :
       {std::pair(LayoutOutcome::kBehind, "behind by their lower bounds"),
        std::pair(LayoutOutcome::kStepTooLarge, "with too little memory for a step"),
        std::pair(LayoutOutcome::kModelTooLarge, "with too little memory for the model")})
    if (count(outcome) > 0) text += fmt::format(", {} {}", count(outcome), what);
  return text + ".";
}

std::string more_or_less(Nanos difference) {
  const Nanos size = difference < Nanos(0) ? Nanos(0) - difference : difference;
  return (difference < Nanos(0) ? "-" : "+") + human_duration(size);
}

/// Why a layout is not the best.
std::string why(const RatedLayout& layout, const RatedLayout& best) {
  switch (layout.outcome) {
    case LayoutOutcome::kModelTooLarge:
      return "weights, gradients and optimizer leave no memory for activations";
    case LayoutOutcome::kStepTooLarge:
      if (!layout.why)
        return fmt::format(
            "the longest sequence alone, or the reduction of gradients, takes more than the {} "
            "that "
            "are left for activations",
            human_bytes(layout.left));
      return fmt::format("a step needs {} for activations on pipeline rank {}, {} are left",
                         human_bytes(layout.why->needed), layout.why->rank,
                         human_bytes(layout.left));
    case LayoutOutcome::kBehind:
      return fmt::format("no plan takes less than {}", human_duration(layout.bound));
    case LayoutOutcome::kRated:
      break;
  }
  if (layout.grid.same_ranks(best.grid)) return "the best";
  return fmt::format("{:.2f} times the best step: work {}, waiting {}, reduction and optimizer {}",
                     to_seconds(layout.mean()) / to_seconds(best.mean()),
                     more_or_less(mean_work(layout) - mean_work(best)),
                     more_or_less(mean_wait(layout) - mean_wait(best)),
                     more_or_less(mean_end(layout) - mean_end(best)));
}

const RatedLayout& layout_on(const LayoutReport& report, const ParallelGrid& ranks) {
  return *std::ranges::find_if(
      report.layouts, [&](const RatedLayout& layout) { return layout.grid.same_ranks(ranks); });
}

/// Says which settings were not searched, how far figures may be off, and how to plan and train the
/// best layout.
std::string notes_text(const LayoutReport& report, std::vector<std::string> settings) {
  const RatedLayout& best = report.layouts.front();
  std::string text =
      "Tried beside tp × pp × dp, for the five best layouts and those that do not fit: zero 2 and "
      "3, 2 and 4 stages a rank, a spread vocabulary, split backwards. Held as configured: all "
      "else.";
  if (best.outcome != LayoutOutcome::kRated) return text;
  text += fmt::format(" Known error: {}.", describe(best.known));
  if (best.reserved_percent > 0)
    text += fmt::format(" {}% of a rank's memory is kept free for it, beside the headroom.",
                        best.reserved_percent);
  if (best.grid.zero > 1)
    text += fmt::format(" PackFlow trains with zero 1, slimpack.torch with 1 and 3{}.",
                        best.grid.zero == 3 ? "" : ": zero 2 is for other systems");
  for (const std::vector<std::string>& more : {report.settings, layout_settings(best)})
    settings.insert(settings.end(), more.begin(), more.end());
  return text + fmt::format(" The best: --set {}", fmt::join(settings, " --set "));
}

std::string usual_text(const LayoutReport& report, int columns) {
  const RatedLayout& best = report.layouts.front();
  if (best.outcome != LayoutOutcome::kRated || report.usual.empty()) return "";
  Table table({{"usual layout", Align::kLeft}, {"against the best", Align::kLeft}});
  for (const ParallelGrid& grid : report.usual)
    table.add_row({layout_text(grid), why(layout_on(report, grid), best)});
  return "\n" + table.text(columns);
}

nlohmann::json layout_json(const LayoutReport& report, const RatedLayout& layout) {
  nlohmann::json one{{"tp", layout.grid.tp},
                     {"pp", layout.grid.pp},
                     {"dp", layout.grid.dp},
                     {"zero", layout.grid.zero},
                     {"stages_per_rank", layout.grid.stages_per_rank},
                     {"spread_vocabulary", layout.grid.spread_vocabulary},
                     {"split_backwards", layout.splits_backwards},
                     {"settings", layout_settings(layout)},
                     {"outcome", to_string(layout.outcome)},
                     {"bound_ns", layout.bound.count()}};
  one["memory_bytes"] = layout.left.count();
  if (layout.why) one["needed_bytes"] = layout.why->needed.count();
  if (layout.outcome != LayoutOutcome::kRated) return one;
  one["makespan_ns"] = to_json(makespans(layout));
  one["makespans_ns"] = nlohmann::json::array();
  for (const LayoutStep& step : layout.steps) one["makespans_ns"].push_back(step.makespan.count());
  one["tokens_per_second"] = report.tokens_per_second(layout);
  one["mfu"] = nullptr;
  if (const auto mfu = layout.mfu()) one["mfu"] = *mfu;
  one["work_ns"] = mean_work(layout).count();
  one["wait_ns"] = mean_wait(layout).count();
  one["end_ns"] = mean_end(layout).count();
  one["headroom_bytes"] = least_headroom(layout).count();
  one["merged"] = most_merged(layout);
  one["recompute"] = recompute_figures(layout.steps.front().recompute);
  return one;
}

}  // namespace

std::vector<RunSpeed> run_speeds(const std::vector<LayoutReport>& reports) {
  const std::vector<Distinction> of_search = distinctions(reports);
  const auto speed = [&](const LayoutReport& report, const RatedLayout& layout) {
    std::string name = layout_text(layout.grid);
    for (const Distinction& one : of_search)
      name += fmt::format(", {} {}", one.title, one.cell(report));
    const Spread times = makespans(layout);
    RunSpeed run{std::move(name), report.tokens_per_second(layout)};
    if (layout.steps.size() > 1) run.worst_step = times.worst / times.mean;
    return run;
  };
  const auto rated = [](const RatedLayout& layout) {
    return layout.outcome == LayoutOutcome::kRated;
  };
  std::vector<RunSpeed> runs;
  for (const LayoutReport& report : reports)
    if (rated(report.layouts.front())) runs.push_back(speed(report, report.layouts.front()));
  std::ranges::stable_sort(runs, std::ranges::greater(), &RunSpeed::tokens_per_second);
  const LayoutReport& best = best_of(reports);
  for (const ParallelGrid& grid : best.usual) {
    const RatedLayout& usual = layout_on(best, grid);
    if (rated(usual) && !grid.same_ranks(best.layouts.front().grid))
      runs.push_back(speed(best, usual));
  }
  return runs;
}

double LayoutReport::tokens_per_second(const RatedLayout& layout) const {
  return static_cast<double>(tokens.count()) / to_seconds(layout.mean());
}

const LayoutReport& best_of(const std::vector<LayoutReport>& reports) {
  return *std::ranges::max_element(reports, {}, [](const LayoutReport& report) {
    const RatedLayout& best = report.layouts.front();
    return best.outcome == LayoutOutcome::kRated ? report.tokens_per_second(best) : 0.0;
  });
}

std::vector<std::string> layout_settings(const RatedLayout& layout) {
  const ParallelGrid& grid = layout.grid;
  std::vector<std::string> settings{fmt::format("parallel.tp={}", grid.tp),
                                    fmt::format("parallel.pp={}", grid.pp),
                                    fmt::format("parallel.dp={}", grid.dp)};
  if (grid.zero != 1) settings.push_back(fmt::format("parallel.zero={}", grid.zero));
  if (grid.stages_per_rank != 1)
    settings.push_back(fmt::format("parallel.stages_per_rank={}", grid.stages_per_rank));
  if (grid.spread_vocabulary) settings.emplace_back("parallel.spread_vocabulary=true");
  if (layout.splits_backwards) settings.emplace_back("plan.backward=split");
  return settings;
}

std::string layouts_text(const std::vector<LayoutReport>& reports,
                         const std::vector<std::string>& settings, int columns) {
  const LayoutReport& best = best_of(reports);
  return best_table(reports, columns) + "\n" + folded(counts_text(best), columns) + "\n" +
         folded(notes_text(best, settings), columns) + "\n" + usual_text(best, columns);
}

nlohmann::json layouts_json(const std::vector<LayoutReport>& reports) {
  nlohmann::json searches = nlohmann::json::array();
  for (const LayoutReport& report : reports) {
    nlohmann::json layouts = nlohmann::json::array();
    for (const RatedLayout& layout : report.layouts) layouts.push_back(layout_json(report, layout));
    searches.push_back({{"hardware", report.hardware},
                        {"context", report.context.count()},
                        {"step_tokens", report.step_tokens.count()},
                        {"tokens", report.tokens.count()},
                        {"known_error", to_json(report.layouts.front().known)},
                        {"reserved_percent", report.layouts.front().reserved_percent},
                        {"layouts", std::move(layouts)}});
  }
  return {{"format", "slimpack-layouts"}, {"version", 1}, {"searches", std::move(searches)}};
}

}  // namespace slimpack
