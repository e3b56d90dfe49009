// Steps, for each baseline that has a chance by the bound of its kind:
//  1. Pack. Bound every step of these packs.
//  2. For every dealing and order: deal. Bound every step of these shares.
//  3. For every tuning with these shares: make the plan and rate it (baseline_rating.h).
#include "slimpack/planner/baseline_search.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/threads.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/plan/regroup.h"
#include "slimpack/planner/baseline_bounds.h"
#include "slimpack/planner/baseline_rating.h"
#include "slimpack/planner/baseline_step.h"

namespace slimpack {
namespace {

using Tunings = std::span<const Tuning>;

bool symmetric(const StepPlan& plan) {
  return std::ranges::all_of(plan.replicas,
                             [](const ReplicaPlan& r) { return all_paired(r.packs); });
}

bool same_packs(const Baseline& baseline, const Tuning& a, const Tuning& b) {
  return a.pack == b.pack && a.packs == b.packs && a.share == b.share && a.tails == b.tails &&
         (!a.tails || a.slices == b.slices) &&
         (!baseline.traits.packs_for_group || a.group == b.group);
}

bool same_shares(const Tuning& a, const Tuning& b) {
  return a.dealing == b.dealing && a.order == b.order && a.group == b.group;
}

/// Calls `part` with every run of neighbours that are alike.
template <class Alike, class Part>
void for_each_run(Tunings tunings, Alike alike, Part part) {
  while (!tunings.empty()) {
    std::size_t count = 1;
    while (count < tunings.size() && alike(tunings[0], tunings[count])) ++count;
    part(tunings.first(count));
    tunings = tunings.subspan(count);
  }
}

class BaselineSearch {
 public:
  explicit BaselineSearch(const BaselineRequest& request)
      : request_(request),
        quickest_(stage_table(request.step.cost, request.step.job,
                              request.recomputations.front().recompute)),
        rating_(request),
        bounds_(rating_.cheapest(), request.step.lengths, request.most_merged) {}

  /// Searches the tunings of a baseline.
  void search(const Baseline& baseline) {
    if (!baseline.traits.runs(request_.step.job.layout.placement)) return;
    if (!request_.exchanges(baseline) && !rating_.has_chance(bounds_.of_kind(baseline.traits)))
      return;
    std::vector<Tuning> tunings{Tuning{}};
    if (request_.tuned) tunings = baseline.tunings(input({}));
    const auto alike = [&](const Tuning& a, const Tuning& b) { return same_packs(baseline, a, b); };
    for_each_run(tunings, alike, [&](Tunings run) { search_packs(baseline, run); });
  }

  void share(std::atomic<Nanos>& shortest) { rating_.share(shortest); }
  [[nodiscard]] BaselineSearchResult take() { return rating_.take(); }

 private:
  /// Packs and shares are those of the quickest recomputation, whatever is recomputed in the end.
  [[nodiscard]] BaselineInput input(const Tuning& tuning) const {
    return {quickest_, request_.step.job.context, request_.step.lengths, tuning};
  }

  void search_packs(const Baseline& baseline, Tunings tunings) {
    const MadePacks made = made_packs(baseline, input(tunings.front()));
    std::vector<std::vector<SequencePacks>> seen;
    for_each_run(tunings, same_shares, [&](Tunings run) {
      const BaselineInput first = input(run.front());
      const std::int32_t group = baseline.group == nullptr ? 1 : baseline.group(first);
      if (group > request_.most_merged) return;
      if (!request_.exchanges(baseline) &&
          !rating_.has_chance(bounds_.of_packs(baseline.traits, made.all, group)))
        return;
      std::vector<SequencePacks> shares = dealt_packs(baseline, first, made);
      if (!shares.empty() && std::ranges::find(seen, shares) != seen.end()) return;
      for (const Tuning& tuning : run) search_shares(baseline, tuning, shares, group);
      seen.push_back(std::move(shares));
    });
  }

  void search_shares(const Baseline& baseline, const Tuning& tuning,
                     const std::vector<SequencePacks>& shares, std::int32_t group) {
    request_.tick();
    if (!request_.exchanges(baseline) && !shares_have_chance(baseline, tuning, shares, group))
      return;
    const BaselinePlan made = baseline.plan(input(tuning), shares);
    if (most_merged(made.plan) > request_.most_merged) return;
    if (request_.step.choices.cuts == CutsKind::kSymmetric && !symmetric(made.plan)) return;
    rating_.rate(baseline, tuning, made);
  }

  [[nodiscard]] bool shares_have_chance(const Baseline& baseline, const Tuning& tuning,
                                        const std::vector<SequencePacks>& shares,
                                        std::int32_t group) {
    const ShareBound bound = bounds_.of_shares(baseline.traits, shares, group, tuning);
    if (!rating_.has_chance(bound.makespan)) return false;
    // One replica of the heaviest share says most; making it takes a part of the time.
    if (shares.empty() || request_.step.job.replicas == 1 || !request_.step.job.speed.empty())
      return true;
    BaselineInput one = input(tuning);
    one.first_of_group = true;
    return rating_.replica_has_chance(baseline, baseline.plan(one, {shares[bound.heaviest]}));
  }

  const BaselineRequest& request_;
  StageTable quickest_;
  BaselineRating rating_;
  BaselineBounds bounds_;
};

}  // namespace

bool interleaves(PlannerKind planner) {
  if (planner == PlannerKind::kSlimpack || planner == PlannerKind::kPacked) return true;
  return baseline_named(to_string(planner)).traits.interleaves;
}

BaselineRequest all_baselines(const StepQuestion& question) {
  return {.step = question,
          .baselines = baselines(),
          .recomputations = recompute_choices(question),
          .most_merged = question.choices.most_merged,
          .exchange_context = question.choices.exchange_context};
}

BaselineRequest named_baseline(const StepQuestion& question) {
  BaselineRequest request = all_baselines(question);
  const Baseline& baseline = baseline_named(to_string(question.choices.planner));
  const StagePlacement& placement = question.job.layout.placement;
  if (!baseline.traits.runs(placement) && placement.turns_back())
    invalid_input(
        "plan.planner is \"{}\", which knows no stages that turn back, but parallel.placement is "
        "\"v\"; set it to \"loop\", or plan.planner to \"slimpack\" or \"packed\"",
        baseline.name);
  if (!baseline.traits.runs(placement))
    invalid_input(
        "plan.planner is \"{}\", which runs one stage on each rank, but "
        "parallel.stages_per_rank is {}; set it to 1 or choose another planner",
        baseline.name, placement.stages_per_rank());
  request.baselines = std::span(&baseline, 1);
  if (baseline.traits.merges)
    request.most_merged =
        largest_group(question.job.replicas, abilities(question.cost).largest_merge);
  return request;
}

BaselineSearchResult search_baselines(const BaselineRequest& request) {
  const Tokens longest = *std::ranges::max_element(request.step.lengths);
  if (longest > request.step.job.context) return {};
  BaselineRequest asked = request;
  asked.tick = on_this_thread(request.tick);
  const BaselineSearch begun(asked);
  if (!request.below) {  // what one baseline finds decides how the next is rated
    BaselineSearch all = begun;
    for (const Baseline& baseline : request.baselines) all.search(baseline);
    return all.take();
  }
  std::atomic<Nanos> shortest = *request.below;
  std::vector<BaselineSearchResult> found(request.baselines.size());
  for_each_index(found.size(), processors(), [&](std::size_t b) {
    BaselineSearch one = begun;
    one.share(shortest);
    one.search(request.baselines[b]);
    found[b] = one.take();
  });
  return std::move(*std::ranges::min_element(found, {}, [](const BaselineSearchResult& result) {
    return result.step ? result.step->prediction.makespan
                       : Nanos(std::numeric_limits<std::int64_t>::max());
  }));
}

}  // namespace slimpack
