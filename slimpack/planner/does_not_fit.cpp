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
Bytes single_need(const Refused& refused, const StageTable& table, Tokens length) {
  const SequenceLengths lengths{length};
  const Choices& choices = refused.choices;
  Job job = refused.job;
  job.memory_cap = Bytes(0);
  if (choices.planner == PlannerKind::kPacked) {
    const BaselinePlan packed = baseline_plan(packed_baseline(), {table, job.context, lengths});
    return step_need(ordered_step(packed, job.memory_cap, table), refused.cost).bytes;
  }
  const bool ours = choices.planner == PlannerKind::kSlimpack;
  BaselineQuestion others =
      (ours ? all_baselines : named_baseline)(job, lengths, choices, refused.cost);
  others.recomputations = {{refused.recompute, false}};
  const BaselineSearchResult found = search_baselines(others);
  if (!ours) return found.least_need->bytes;
  const StepProblem single = paced({table, lengths, choices, job.memory_cap});
  const Bytes searched = search_step({single}).least_need.bytes;
  return found.least_need ? std::min(searched, found.least_need->bytes) : searched;
}

}  // namespace

DoesNotFit refusal(const Refused& refused, const RankNeed& need) {
  const StageTable table = stage_table(refused.cost, refused.job, refused.recompute);
  DoesNotFit out;
  out.cap = *refused.job.memory_cap;
  out.needed = need.bytes;
  out.rank = need.rank;
  out.longest = *std::max_element(refused.lengths.begin(), refused.lengths.end());
  const auto fits_alone = [&](Tokens length) {
    return !never_fits(out.cap, {length}, refused.choices.most_merged, table) &&
           single_need(refused, table, length) <= out.cap;
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
