#include "slimpack/planner/layout_search.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

/// Bounds of one step: until everything ends, and until the last action does.
struct StepBounds {
  Nanos step;
  Nanos actions;
};

/// Baselines are candidates of ours and may cut at any token.
StepBounds bounds_of(const LayoutJob& on, const SequenceLengths& lengths) {
  Costs known = on.cost;
  if (on.choices.backward == BackwardKind::kWhole) known.kinds.front().weight_gradient = {};
  const StageTable table = cheapest_table(known, on.job, on.choices.recompute);
  const CutLimits limits{.most_merged = on.choices.most_merged,
                         .granularity = Tokens(1),
                         .recompute = on.choices.recompute,
                         .memory_cap = on.job.memory_cap};
  const BoundProblem problem{table, lengths, limits};
  return {step_lower_bound(problem), step_actions_bound(problem)};
}

/// A layout on its way through the search.
struct Contender {
  RatedLayout rated;
  std::optional<LayoutJob> job;
  std::vector<StepBounds> bounds;  ///< by step
  bool usual = false;

  /// No plans of all steps take less.
  [[nodiscard]] Nanos least() const {
    Nanos sum;
    for (const LayoutStep& step : rated.steps) sum += step.makespan;
    for (std::size_t s = rated.steps.size(); s < bounds.size(); ++s) sum += bounds[s].step;
    return sum;
  }
};

/// Whether it is clear without a plan that a step does not fit.
bool never_fits(const LayoutJob& on, const std::vector<SequenceLengths>& steps) {
  return std::ranges::any_of(steps, [&](const SequenceLengths& lengths) {
    return std::ranges::all_of(on.choices.recompute, [&](Recompute everywhere) {
      return never_fits(on.job.memory_cap, lengths, on.choices.most_merged,
                        stage_table(on.cost, on.job, everywhere));
    });
  });
}

LayoutStep layout_step(const LayoutJob& on, const RatedPlan& step, const StepBounds& bounds) {
  const std::vector<Nanos>& busy = step.prediction.busy;
  const Nanos all = std::accumulate(busy.begin(), busy.end(), Nanos(0));
  LayoutStep out{.makespan = step.prediction.makespan,
                 .work = all / static_cast<std::int64_t>(busy.size()),
                 .end = bounds.step - bounds.actions,
                 .headroom = Bytes(0),
                 .flops = model_flops(on.cost, step.plan.lengths),
                 .merged = most_merged(step.plan),
                 .recompute = step.plan.recompute};
  if (on.job.memory_cap) out.headroom = *on.job.memory_cap - step_need(step, on.cost).bytes;
  return out;
}

class LayoutSearch {
 public:
  explicit LayoutSearch(const LayoutQuestion& question) : question_(question) {
    for (const ParallelGrid& grid : question.grids) contenders_.push_back(contender(grid, false));
    std::ranges::stable_sort(contenders_, {}, &Contender::least);
  }

  std::vector<RatedLayout> run() {
    for (Contender& contender : contenders_)
      if (contender.job && plan(contender, std::nullopt)) best_.insert(contender.least());
    if (question_.changes) change(change(changeable()));
    std::vector<RatedLayout> rated;
    for (Contender& contender : contenders_) rated.push_back(std::move(contender.rated));
    std::ranges::stable_sort(rated, {}, [](const RatedLayout& layout) {
      const bool done = layout.outcome == LayoutOutcome::kRated;
      return std::tuple(layout.outcome, done ? layout.mean() : layout.bound);
    });
    return rated;
  }

 private:
  /// Its job. nullopt also where backwards are to be split and the costs do not know how.
  [[nodiscard]] std::optional<LayoutJob> job_of(const ParallelGrid& grid, bool splits) const {
    std::optional<LayoutJob> job = question_.job(grid);
    if (!job || !splits) return job;
    if (job->cost.kinds.front().weight_gradient == EdgeTime()) return std::nullopt;
    job->choices.backward = BackwardKind::kSplit;
    return job;
  }

  Contender contender(const ParallelGrid& grid, bool splits) {
    Contender contender;
    contender.rated.grid = grid;
    contender.rated.splits_backwards = splits;
    contender.job = job_of(grid, splits);
    contender.usual = std::ranges::find(question_.usual, grid) != question_.usual.end();
    const auto steps = static_cast<std::int64_t>(question_.steps.size());
    if (!contender.job) {
      contender.rated.outcome = LayoutOutcome::kModelTooLarge;
      question_.progress(steps);
      return contender;
    }
    contender.rated.left = contender.job->job.memory_cap.value_or(Bytes(0));
    contender.rated.known = known_error(contender.job->cost);
    contender.rated.reserved_percent = contender.job->reserved_percent;
    contender.rated.peak_flops = contender.job->cost.device.peak_flops;
    if (never_fits(*contender.job, question_.steps)) {
      contender.rated.outcome = LayoutOutcome::kStepTooLarge;
      contender.job.reset();
      question_.progress(steps);
      return contender;
    }
    for (const SequenceLengths& lengths : question_.steps)
      contender.bounds.push_back(bounds_of(*contender.job, lengths));
    contender.rated.bound = contender.least() / steps;
    return contender;
  }

  /// Layouts whose small changes are tried: the best and those that do not fit.
  std::vector<Contender*> changeable() {
    std::vector<Contender*> rated, misfits;
    for (Contender& contender : contenders_)
      if (contender.rated.outcome == LayoutOutcome::kRated)
        rated.push_back(&contender);
      else if (contender.rated.outcome != LayoutOutcome::kBehind)
        misfits.push_back(&contender);
    std::ranges::stable_sort(rated, {}, [](const Contender* c) { return c->least(); });
    if (rated.size() > question_.changed) rated.resize(question_.changed);
    rated.insert(rated.end(), misfits.begin(), misfits.end());
    return rated;
  }

  struct Change {
    Contender* layout;
    ParallelGrid grid;
    bool splits;
  };

  [[nodiscard]] std::vector<Change> changes_of(const std::vector<Contender*>& layouts) const {
    std::vector<Change> changes;
    for (Contender* layout : layouts) {
      const RatedLayout& rated = layout->rated;
      for (const ParallelGrid& grid : question_.changes(rated.grid))
        changes.push_back({layout, grid, rated.splits_backwards});
      if (question_.tries_split && rated.outcome == LayoutOutcome::kRated &&
          !rated.splits_backwards)
        changes.push_back({layout, rated.grid, true});
    }
    return changes;
  }

  /// Each layout takes the change whose steps are shortest, if they are shorter than its own.
  /// Result: the layouts that took one.
  std::vector<Contender*> change(const std::vector<Contender*>& layouts) {
    const std::vector<Change> changes = changes_of(layouts);
    if (changes.empty()) return {};
    question_.more(std::ssize(changes) * std::ssize(question_.steps));
    std::vector<Contender*> changed_ones;
    for (const auto& [layout, grid, splits] : changes) {
      const bool rated = layout->rated.outcome == LayoutOutcome::kRated;
      const std::optional<Nanos> own = rated ? std::optional(layout->least()) : std::nullopt;
      Contender changed = contender(grid, splits);
      if (!changed.job || !plan(changed, own)) continue;
      if (own && changed.least() >= *own) continue;
      if (own) best_.erase(best_.find(*own));
      best_.insert(changed.least());
      changed.usual = layout->usual;
      *layout = std::move(changed);
      if (std::ranges::find(changed_ones, layout) == changed_ones.end())
        changed_ones.push_back(layout);
    }
    return changed_ones;
  }

  [[nodiscard]] bool behind(const Contender& contender) const {
    return !contender.usual && best_.size() >= question_.best &&
           contender.least() >=
               *std::next(best_.begin(), static_cast<std::ptrdiff_t>(question_.best) - 1);
  }

  /// Whether all steps are planned. `below`: only shorter ones are of use.
  bool plan(Contender& contender, const std::optional<Nanos>& below) {
    RatedLayout& rated = contender.rated;
    const LayoutJob& on = *contender.job;
    for (const SequenceLengths& lengths : question_.steps) {
      const auto left = static_cast<std::int64_t>(question_.steps.size() - rated.steps.size());
      if (behind(contender) || (below && contender.least() >= *below)) {
        rated.outcome = LayoutOutcome::kBehind;
        question_.progress(left);
        return false;
      }
      PlanOutcome outcome = plan_step({on.job, lengths, on.choices, on.cost}, question_.tick);
      if (outcome.does_not_fit) {
        rated.outcome = LayoutOutcome::kStepTooLarge;
        rated.why = *outcome.does_not_fit;
        question_.progress(left);
        return false;
      }
      const StepBounds& bounds = contender.bounds[rated.steps.size()];
      rated.steps.push_back(layout_step(on, *outcome.step, bounds));
      question_.progress(1);
    }
    return true;
  }

  const LayoutQuestion& question_;
  std::vector<Contender> contenders_;
  std::multiset<Nanos> best_;  ///< of all steps together, by rated layout
};

}  // namespace

Nanos RatedLayout::mean() const {
  Nanos sum;
  for (const LayoutStep& step : steps) sum += step.makespan;
  return sum / static_cast<std::int64_t>(steps.size());
}

std::optional<double> RatedLayout::mfu() const {
  Flops flops{0};
  Nanos time;
  for (const LayoutStep& step : steps) {
    flops += step.flops;
    time += step.makespan;
  }
  return mfu_of(flops, time, grid.ranks(), peak_flops);
}

std::vector<RatedLayout> search_layouts(const LayoutQuestion& question) {
  return LayoutSearch(question).run();
}

}  // namespace slimpack
