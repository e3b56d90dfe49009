// Models on 256 H100 against every baseline in its best setting: on one grid, and every planner at
// its own best layout. All get the same sequences, layers per stage, choices of recomputation and
// memory for activations.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "bench/planner/contest.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

class BaselinesTuned {
 public:
  BaselinesTuned(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("tuned baselines",
                  static_cast<std::int64_t>(options.models.size() * options.contexts.size() *
                                            options.sequences.size() * std::size(kLists))),
        table_({{"model", Align::kLeft},
                {"context"},
                {"sequences"},
                {"lengths", Align::kLeft},
                {"step"},
                {"bubble"},
                {"× best other"},
                {"best other", Align::kLeft},
                {"its tuning", Align::kLeft},
                {"what binds", Align::kLeft}}) {}

  void run() {
    for (const std::string& model : options_.models) {
      const Costs cost = grid_cost(model, {});
      for (const std::int64_t context : options_.contexts)
        for (const std::size_t sequences : options_.sequences)
          for (const std::string_view list : kLists) {
            add(model, cost, list, Tokens(1024 * context), sequences);
            progress_.advance();
          }
    }
    progress_.finish();
    fmt::print("\nTuned baselines: {} on H100\n\n{}", to_string(Grid{}), table_.text());
    report_.add_goal({"tuned: baselines that are faster than ours", behind_, Goal::Sense::kAtMost,
                      0, Unit::kCount});
  }

 private:
  void add(const std::string& model, const Costs& cost, std::string_view list, Tokens context,
           std::size_t sequences) {
    const std::optional<StepJob> job =
        grid_job(cost, {}, list_lengths(list, options_, sequences, context), context);
    if (!job) return;
    RatedStep own;
    const Contest found = contest(*job, &own);
    behind_ += found.behind();
    const Contender* other = found.best_other();
    nlohmann::json entry{{"model", model},
                         {"lengths", list},
                         {"context", context.count()},
                         {"sequences", sequences},
                         {"speedup", found.speedup()},
                         {"planners", nlohmann::json::array({to_json(found.ours)})}};
    for (const Contender& each : found.others) entry["planners"].push_back(to_json(each));
    std::string binds;
    if (other != nullptr && found.ours.fits && found.speedup() < kClearlyFaster)
      binds = what_binds(*job, own, other->makespan);
    entry["what_binds"] = binds;
    report_.add_to("baselines_tuned", std::move(entry));
    table_.add_row({model, in_k(context), fmt::format("{}", sequences), std::string(list),
                    found.ours.fits ? human_duration(found.ours.makespan) : "does not fit",
                    human_share(found.ours.bubble),
                    found.speedup() > 0 ? fmt::format("{:.2f}", found.speedup()) : "",
                    other == nullptr ? "none fits" : other->planner,
                    other == nullptr ? "" : other->tuning, binds});
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_;
  Table table_;
  double behind_ = 0;
};

constexpr std::int32_t kRanks = 256;
constexpr std::int32_t kDegrees[] = {1, 2, 4, 8};  ///< of tp and of pp

/// A planner's step where it is fastest.
struct Best {
  Contender step;
  Grid grid;
};

/// "tp 8 × pp 4 × dp 8, cp 2".
std::string layout_of(const Best& best) {
  return to_string(best.grid) +
         (best.step.merged > 1 ? fmt::format(", cp {}", best.step.merged) : "");
}

/// The geometric mean of what was added.
struct GeometricMean {
  double logs = 0;
  int count = 0;

  void add(double value) {
    logs += std::log(value);
    ++count;
  }
  [[nodiscard]] double value() const { return count == 0 ? 0 : std::exp(logs / count); }
};

class Layouts {
 public:
  Layouts(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("layouts",
                  static_cast<std::int64_t>(options.models.size() * options.contexts.size() *
                                            options.sequences.size() * std::size(kLists) *
                                            std::size(kDegrees) * std::size(kDegrees))),
        table_({{"model", Align::kLeft},
                {"context"},
                {"sequences"},
                {"lengths", Align::kLeft},
                {"our layout", Align::kLeft},
                {"step"},
                {"× best other"},
                {"best other", Align::kLeft},
                {"its layout", Align::kLeft},
                {"its tuning", Align::kLeft},
                {"what binds", Align::kLeft}}) {}

  void run() {
    for (const std::string& model : options_.models)
      for (const std::int64_t context : options_.contexts)
        for (const std::size_t sequences : options_.sequences)
          for (const std::string_view list : kLists)
            add(model, list, Tokens(1024 * context), sequences);
    progress_.finish();
    fmt::print("\nEvery planner at its own best layout: {} H100\n\n{}", kRanks, table_.text());
    report_.add_goal({"layouts: baselines that are faster than ours, all layouts", behind_,
                      Goal::Sense::kAtMost, 0, Unit::kCount});
    for (const auto& [context, least] : {std::pair(256, 1.5), std::pair(128, 1.25)})
      if (const auto mean = means_.find(context); mean != means_.end())
        report_.add_goal(
            {fmt::format("layouts: × best other, {}K, 512 sequences, geometric mean", context),
             mean->second.value(), Goal::Sense::kAtLeast, least, Unit::kRatio});
  }

 private:
  void add(const std::string& model, std::string_view list, Tokens context, std::size_t sequences) {
    std::map<std::string, Best> best;
    nlohmann::json layouts = nlohmann::json::array();
    const SequenceLengths lengths = list_lengths(list, options_, sequences, context);
    for (const std::int32_t tp : kDegrees)
      for (const std::int32_t pp : kDegrees) {
        const Grid grid{tp, pp, kRanks / (tp * pp)};
        if (const auto job = grid_job(grid_cost(model, grid), grid, lengths, context))
          layouts.push_back(compete(*job, grid, best));
        progress_.advance();
      }
    const Grid every_rank_alone{1, 1, kRanks};
    if (const auto fsdp = fsdp_contender(model, every_rank_alone, lengths, context))
      best.insert_or_assign(fsdp->planner, Best{*fsdp, every_rank_alone});
    nlohmann::json entry{{"model", model},
                         {"lengths", list},
                         {"context", context.count()},
                         {"sequences", sequences},
                         {"layouts", std::move(layouts)}};
    conclude(entry, best, lengths);
    report_.add_to("layouts", std::move(entry));
  }

  /// All planners on one layout.
  nlohmann::json compete(const StepJob& job, const Grid& grid, std::map<std::string, Best>& best) {
    const Contest found = contest(job);
    behind_ += found.behind();
    nlohmann::json entry{{"tp", grid.tp},
                         {"pp", grid.pp},
                         {"dp", grid.dp},
                         {"speedup", found.speedup()},
                         {"planners", nlohmann::json::array()}};
    const auto consider = [&](const Contender& one) {
      entry["planners"].push_back(to_json(one));
      const auto known = best.find(one.planner);
      if (one.fits && (known == best.end() || one.makespan < known->second.step.makespan))
        best.insert_or_assign(one.planner, Best{one, grid});
    };
    consider(found.ours);
    for (const Contender& other : found.others) consider(other);
    return entry;
  }

  void conclude(nlohmann::json& entry, const std::map<std::string, Best>& best,
                const SequenceLengths& lengths) {
    const Best* ours = nullptr;
    const Best* other = nullptr;
    nlohmann::json& own_best = entry["best"] = nlohmann::json::object();
    for (const auto& [planner, one] : best) {
      own_best[planner] = to_json(one.step);
      own_best[planner]["layout"] = to_string(one.grid);
      if (planner == "slimpack")
        ours = &one;
      else if (other == nullptr || one.step.makespan < other->step.makespan)
        other = &one;
    }
    std::vector<std::string> row{entry["model"], in_k(Tokens(entry["context"].get<std::int64_t>())),
                                 fmt::format("{}", lengths.size()), entry["lengths"]};
    if (ours == nullptr || other == nullptr) {
      row.resize(11);
      row[4] = "none fits";
      table_.add_row(std::move(row));
      return;
    }
    const double speedup = to_seconds(other->step.makespan) / to_seconds(ours->step.makespan);
    entry["speedup"] = speedup;
    if (lengths.size() == 512) means_[entry["context"].get<int>() / 1024].add(speedup);
    std::string binds;
    if (speedup < kClearlyFaster) {
      const StepJob job = *grid_job(grid_cost(row[0], ours->grid), ours->grid, lengths,
                                    Tokens(entry["context"].get<std::int64_t>()));
      binds = what_binds(job, rated(job), other->step.makespan);
    }
    entry["what_binds"] = binds;
    for (std::string cell :
         {layout_of(*ours), human_duration(ours->step.makespan), fmt::format("{:.2f}", speedup),
          other->step.planner, layout_of(*other), other->step.tuning, binds})
      row.push_back(std::move(cell));
    table_.add_row(std::move(row));
  }

  const BenchOptions& options_;
  Report& report_;
  PartProgress progress_;
  Table table_;
  double behind_ = 0;
  std::map<int, GeometricMean> means_;  ///< by context in K, of 512 sequences
};

}  // namespace

void run_baselines_tuned(const BenchOptions& options, Report& report) {
  BaselinesTuned(options, report).run();
}

void run_layouts(const BenchOptions& options, Report& report) {
  Layouts(options, report).run();
}

}  // namespace slimpack::bench
