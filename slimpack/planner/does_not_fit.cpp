#include "slimpack/planner/does_not_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "slimpack/base/human.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/baseline_orders.h"
#include "slimpack/planner/baseline_search.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/step_search.h"

namespace slimpack {
namespace {

/// The least memory of a step of one sequence.
Bytes single_need(const StepProblem& problem, Tokens length) {
  const SequenceLengths lengths{length};
  Job job = problem.job;
  job.memory_cap = Bytes(0);
  if (problem.choices.planner == PlannerKind::kPacked)
    return step_need(ordered_step(baseline_plan(packed_baseline(), {job, lengths, problem.cost}),
                                  job, problem.cost),
                     problem.cost)
        .bytes;
  const bool ours = problem.choices.planner == PlannerKind::kSlimpack;
  BaselineQuestion others =
      (ours ? all_baselines : named_baseline)(job, lengths, problem.choices, problem.cost);
  others.recomputations = {{problem.cost.recompute, false}};
  const BaselineSearchResult found = search_baselines(others);
  if (!ours) return found.least_need->bytes;
  const StepProblem single{job, lengths, problem.choices, problem.cost};
  const Bytes searched = search_step(paced(single)).least_need.bytes;
  return found.least_need ? std::min(searched, found.least_need->bytes) : searched;
}

bool fits_alone(const StepProblem& problem, Tokens length) {
  return !never_fits(problem.job, {length}, problem.choices, problem.cost) &&
         single_need(problem, length) <= *problem.job.memory_cap;
}

}  // namespace

DoesNotFit refusal(const StepProblem& problem, const RankNeed& need) {
  DoesNotFit out;
  out.cap = *problem.job.memory_cap;
  out.needed = need.bytes;
  out.rank = need.rank;
  out.longest = *std::max_element(problem.lengths.begin(), problem.lengths.end());
  std::int64_t fits = 0;
  std::int64_t too_long = out.longest.count() + 1;
  while (too_long - fits > 1) {
    // The longest itself comes first: when it fits alone, no search is needed.
    const std::int64_t length =
        too_long > out.longest.count() ? out.longest.count() : fits + (too_long - fits) / 2;
    (fits_alone(problem, Tokens(length)) ? fits : too_long) = length;
  }
  out.longest_that_fits = Tokens(fits);
  return out;
}

std::string DoesNotFit::message(std::string_view remedy) const {
  const std::string would_fit =
      longest_that_fits >= longest
          ? std::string("each sequence fits alone, so fewer tokens per step would fit")
      : longest_that_fits > Tokens(0)
          ? fmt::format("the longest sequence has {} tokens, one of up to {} would fit",
                        grouped(longest.count()), grouped(longest_that_fits.count()))
          : std::string("not even a sequence of one token would fit");
  return fmt::format(
      "activations need {} bytes ({}) on pipeline rank {}, the cap is {} bytes ({}); {}; {}",
      grouped(needed.count()), human_bytes(needed), rank, grouped(cap.count()), human_bytes(cap),
      would_fit, remedy);
}

}  // namespace slimpack
