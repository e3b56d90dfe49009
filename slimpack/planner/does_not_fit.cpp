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
Bytes single_need(const StepQuestion& question, const StageTable& table, Tokens length) {
  const SequenceLengths lengths{length};
  const Choices& choices = question.choices;
  Job job = question.job;
  job.memory_cap = Bytes(0);
  const StepQuestion alone{job, lengths, choices, question.cost};
  if (choices.planner == PlannerKind::kPacked) {
    const BaselinePlan packed = baseline_plan(packed_baseline(), {table, job.context, lengths});
    return step_need(ordered_step(packed, job.memory_cap, table), question.cost).bytes;
  }
  const bool ours = choices.planner == PlannerKind::kSlimpack;
  BaselineRequest others = (ours ? all_baselines : named_baseline)(alone);
  others.recomputations = {{table.recompute(), false}};
  const BaselineSearchResult found = search_baselines(others);
  if (!ours) return found.least_need->bytes;
  const StepProblem single = step_problem(table, lengths, choices, job.memory_cap);
  const Bytes searched = search_step({single}, step_shares(single)).least_need.bytes;
  return found.least_need ? std::min(searched, found.least_need->bytes) : searched;
}

}  // namespace

DoesNotFit refusal(const StepQuestion& question, const LeastNeed& least) {
  const StageTable table = stage_table(question.cost, question.job, least.recompute);
  DoesNotFit out;
  out.cap = *question.job.memory_cap;
  out.needed = least.need.bytes;
  out.rank = least.need.rank;
  out.longest = *std::ranges::max_element(question.lengths);
  const auto fits_alone = [&](Tokens length) {
    return !never_fits(out.cap, {length}, question.choices.most_merged, table) &&
           single_need(question, table, length) <= out.cap;
  };
  std::int64_t fits = 0;
  std::int64_t too_long = out.longest.count() + 1;
  while (too_long - fits > 1) {
    // The longest itself comes first: when it fits alone, no search is needed.
    const std::int64_t length =
        too_long > out.longest.count() ? out.longest.count() : fits + (too_long - fits) / 2;
    (fits_alone(Tokens(length)) ? fits : too_long) = length;
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
