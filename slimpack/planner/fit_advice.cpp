// Steps: plan the job under the smaller of its cap and what memory leaves; if it does not fit, plan
// its least-memory step to say what is missing, then one change after the other.
#include "slimpack/planner/fit_advice.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/planner/speed_tracker.h"

namespace slimpack {
namespace {

/// Fitting pairs of changes that are looked for: more would not be read.
constexpr std::size_t kMostPairs = 5;

/// A job with everything that planning it needs.
struct PlannedJob {
  Costs cost;
  Job job;  ///< its cap: what activations may fill, at least a byte
  Choices choices;
  std::optional<ActivationBudget> budget;
};

PlannedJob planned_job(const FitQuestion& question, const FitJob& wish) {
  PlannedJob out{question.cost(wish.grid), {}, wish.choices, {}};
  out.choices.most_merged = allowed_merging(wish.choices.most_merged, wish.grid.dp, out.cost);
  out.job = {.layout = balanced_layout(out.cost, question.lengths, wish.grid.pp,
                                       wish.grid.stages_per_rank, wish.grid.spread_vocabulary,
                                       LastStage::kBothPasses, wish.grid.placement),
             .replicas = wish.grid.dp,
             .speed = stage_speeds(question.speed, wish.grid),
             .memory_cap = wish.memory_cap,
             .context = question.context};
  out.budget = activation_budget(out.cost, out.job.layout, wish.grid.dp, out.choices.most_merged);
  if (!out.budget) return out;
  const Bytes available = std::max(Bytes(1), out.budget->available());
  out.job.memory_cap = std::min(wish.memory_cap.value_or(available), available);
  return out;
}

PlanOutcome plan_of(const FitQuestion& question, const PlannedJob& planned) {
  return question.plan({planned.job, question.lengths, planned.choices, planned.cost});
}

/// The GPU's activations of each rank. `needs`: each rank's bytes of all that counts.
std::vector<GpuActivations> gpu_activations(const PlannedJob& planned, const RatedPlan& step,
                                            const std::vector<Bytes>& needs) {
  std::vector<GpuActivations> out(needs.size());
  if (!planned.cost.device.gpu) return out;
  const auto of = [&](Counted counted) { return rank_needs(step, planned.cost, counted); };
  const std::vector<Bytes> tensors = of(Counted::kTensors), kernels = of(Counted::kKernels),
                           messages = of(Counted::kMessages);
  for (std::size_t s = 0; s < needs.size(); ++s)
    out[s] = {kernels[s] - tensors[s], messages[s] - kernels[s], needs[s] - messages[s]};
  return out;
}

std::vector<RankMemoryUse> rank_memory(const PlannedJob& planned, const RatedPlan& step,
                                       const std::optional<Bytes>& cap) {
  const std::vector<Bytes> needs = rank_needs(step, planned.cost);
  const std::vector<GpuActivations> gpu = gpu_activations(planned, step, needs);
  std::vector<RankMemoryUse> ranks;
  const StageLayout& layout = step.plan.layout;
  const StageTable table = stage_table(planned.cost, step);
  for (std::int32_t rank = 0; rank < layout.ranks(); ++rank) {
    const auto s = static_cast<std::size_t>(rank);
    std::int32_t layers = 0;
    for (const StageId stage : layout.placement.stages_of(rank)) layers += layout.layers(stage);
    RankMemoryUse use{layers, table.state(rank), needs[s], gpu[s], std::nullopt};
    if (planned.budget) use.capacity = planned.budget->capacity();
    if (cap) {
      const Bytes capped = use.states.total() + *cap;
      use.capacity = std::min(use.capacity.value_or(capped), capped);
    }
    ranks.push_back(use);
  }
  return ranks;
}

/// Whether the states alone leave no room, which is known before anything is planned.
bool hopeless(const PlannedJob& planned) {
  return planned.budget && planned.budget->available() < Bytes(1);
}

/// The step under the smallest cap that it is found for, from what the refusal says is needed. A
/// search does not promise to find again, under another cap, what it has seen: then the cap grows
/// until it does, as without a cap every step has a plan.
RatedPlan least_step(const FitQuestion& question, PlannedJob& planned, const DoesNotFit& why) {
  constexpr std::int64_t kGrowth = 8;  // by an eighth
  planned.job.memory_cap = why.needed;
  for (;;) {
    PlanOutcome outcome = plan_of(question, planned);
    if (outcome.step) return *std::move(outcome.step);
    const Bytes grown = *planned.job.memory_cap + *planned.job.memory_cap / kGrowth;
    planned.job.memory_cap = std::max(outcome.does_not_fit->needed, grown + Bytes(1));
  }
}

FitReport report_of(const FitQuestion& question, PlannedJob planned, const FitJob& job) {
  FitReport report;
  report.job = job;
  report.budget = planned.budget;
  report.known = known_error(planned.cost);
  report.parameters = model_parameters(planned.cost);
  report.tokens = total_tokens(question.lengths);
  report.longest = *std::max_element(question.lengths.begin(), question.lengths.end());
  report.longest_that_fits = report.longest;
  PlanOutcome outcome = plan_of(question, planned);
  report.fits = outcome.step.has_value();
  if (!report.fits) report.longest_that_fits = outcome.does_not_fit->longest_that_fits;
  const RatedPlan step =
      report.fits ? *std::move(outcome.step) : least_step(question, planned, *outcome.does_not_fit);
  report.ranks = rank_memory(planned, step, job.memory_cap);
  report.recompute = step.plan.recompute;
  for (const RankMemoryUse& rank : report.ranks)
    report.host = std::max(report.host, rank.states.host);
  report.host += host_need(step, planned.cost);
  report.makespan = step.prediction.makespan;
  return report;
}

/// The cap is one for all ranks. Where the fullest activations and the largest states are not on
/// the same rank, or the cap was set too low, a higher one does.
std::optional<FitReport> with_higher_cap(const FitReport& wish) {
  if (!wish.budget) return std::nullopt;
  FitReport report = wish;
  report.job.memory_cap = Bytes(0);
  for (RankMemoryUse& rank : report.ranks) {
    rank.capacity = wish.budget->capacity();
    if (rank.headroom() < Bytes(0)) return std::nullopt;
    report.job.memory_cap = std::max(*report.job.memory_cap, rank.activations);
  }
  report.fits = true;
  report.longest_that_fits = report.longest;
  return report;
}

/// Divisors of this are the numbers of tensor-parallel ranks that share heads and experts evenly.
std::int64_t shared_evenly(const Decoder& shape) {
  std::int64_t divisible = 0;
  for (const LayerShape& layer : shape.kinds)
    divisible =
        layer.has_state() ? 1 : std::gcd(std::gcd(divisible, layer.num_heads), layer.experts);
  return divisible;
}

FitLimits limits_of(const FitQuestion& question, const Costs& cost) {
  const Abilities able = abilities(cost);
  return {static_cast<std::int32_t>(cost.shape.num_layers()),
          shared_evenly(cost.shape),
          std::max(question.most_tp, question.job.grid.tp),
          !cost.kinds.front().merge.empty(),
          able.offloads_optimizer,
          able.own_layers,
          able.recomputations};
}

/// The report of a change; nullopt where what it offloads exceeds the host's memory.
std::optional<FitReport> tried(const FitQuestion& question, PlannedJob planned, const FitJob& job) {
  try {
    return report_of(question, std::move(planned), job);
  } catch (const JobDoesNotFit&) {
    return std::nullopt;
  }
}

/// The candidates that fit: the first of each line, at most `most`.
std::vector<FitOption> fitting(const FitQuestion& question,
                               const std::vector<FitCandidate>& candidates, std::size_t most) {
  std::vector<FitOption> options;
  std::set<std::size_t> done;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (options.size() == most) break;
    question.progress(c, candidates.size());
    const FitCandidate& candidate = candidates[c];
    if (done.contains(candidate.line)) continue;
    PlannedJob planned = planned_job(question, candidate.job);
    if (hopeless(planned)) continue;
    std::optional<FitReport> report = tried(question, std::move(planned), candidate.job);
    if (!report || !report->fits) continue;
    done.insert(candidate.line);
    options.push_back({changed_settings(question.job, candidate.job), *std::move(report)});
  }
  question.progress(candidates.size(), candidates.size());
  return options;
}

PlannedJob wished_job(const FitQuestion& question) {
  PlannedJob planned = planned_job(question, question.job);
  if (!planned.job.memory_cap)
    invalid_input(
        "the memory of a rank is not known; measure again with 'slimpack profile', set "
        "plan.memory_cap to bytes, or set hardware.memory_bytes and no cost.file");
  return planned;
}

}  // namespace

std::size_t FitReport::worst() const {
  return static_cast<std::size_t>(
      std::min_element(ranks.begin(), ranks.end(),
                       [](const RankMemoryUse& a, const RankMemoryUse& b) {
                         return a.headroom() < b.headroom();
                       }) -
      ranks.begin());
}

std::size_t fullest_step(FitQuestion question, const std::vector<SequenceLengths>& steps) {
  std::size_t fullest = 0;
  std::optional<Bytes> least;
  for (std::size_t s = 0; steps.size() > 1 && s < steps.size(); ++s) {
    question.progress(s, steps.size());
    question.lengths = steps[s];
    const FitReport report = report_of(question, wished_job(question), question.job);
    const Bytes headroom = report.ranks[report.worst()].headroom();
    if (least && headroom >= *least) continue;
    least = headroom;
    fullest = s;
  }
  if (steps.size() > 1) question.progress(steps.size(), steps.size());
  return fullest;
}

FitAdvice fit_advice(const FitQuestion& question) {
  PlannedJob planned = wished_job(question);
  const FitLimits limits = limits_of(question, planned.cost);
  FitAdvice advice;
  advice.wish = report_of(question, planned, question.job);
  advice.unlimited = advice.wish.makespan;
  if (advice.wish.fits) return advice;

  planned.job.memory_cap = std::nullopt;
  advice.unlimited = plan_of(question, planned).step->prediction.makespan;
  if (auto report = with_higher_cap(advice.wish))
    advice.options.push_back({changed_settings(question.job, report->job), *std::move(report)});
  const auto singles = single_changes(question.job, limits);
  for (FitOption& option : fitting(question, singles, singles.size()))
    advice.options.push_back(std::move(option));
  if (advice.options.empty())
    advice.options = fitting(question, double_changes(question.job, limits), kMostPairs);
  return advice;
}

}  // namespace slimpack
