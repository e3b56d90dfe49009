#include "slimpack/planner/require_sensible.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "slimpack/base/error.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/stage_table.h"

namespace slimpack {
namespace {

void require_lengths(const SequenceLengths& lengths) {
  if (lengths.empty()) invalid_input("a step of no sequences has no plan; give at least 1");
  for (std::size_t q = 0; q < lengths.size(); ++q)
    if (lengths[q] < Tokens(1))
      invalid_input("sequence {} has {} tokens, the least is 1; leave empty sequences out", q,
                    lengths[q].count());
}

void require_speed(const Job& job) {
  if (job.speed.empty()) return;
  if (job.speed.size() != static_cast<std::size_t>(job.replicas))
    invalid_input("speeds of {} replicas are given, there are {}; give one row for each",
                  job.speed.size(), job.replicas);
  for (std::size_t r = 0; r < job.speed.size(); ++r) {
    if (job.speed[r].size() != static_cast<std::size_t>(job.layout.ranks()))
      invalid_input("speeds of {} ranks are given for replica {}, there are {}; give one for each",
                    job.speed[r].size(), r, job.layout.ranks());
    for (const double speed : job.speed[r])
      if (!std::isfinite(speed) || speed <= 0)
        invalid_input("the speed of a rank of replica {} is {}, must be above 0; 1 is usual", r,
                      speed);
  }
}

/// Searches divide by times and compare their sums: neither goes with infinite ones.
void require_times(const Job& job, const SequenceLengths& lengths, const Costs& known) {
  const StageTable one =
      stage_table(known, StageLayout{{0, static_cast<std::int32_t>(known.shape.num_layers())}});
  double slowest = 1;
  for (const std::vector<double>& speeds : job.speed)
    for (const double speed : speeds) slowest = std::min(slowest, speed);
  double work = 0;
  for (const Pass pass : kWholePasses) {
    const PackCost model = one.stage(StageId(std::int32_t{0}), pass);
    for (const Tokens length : lengths)
      work += model.per_pack + model(Slice{SequenceId(), Tokens(0), length});
  }
  const double share = work / slowest / job.replicas;
  if (!(share < kLongestTime))
    invalid_input(
        "by the cost model ({}), a replica's share takes one rank {:.3g} s, below {:.3g} s can be "
        "planned; correct the cost model's times, or the speeds",
        known.origin.source, share * 1e-9, kLongestTime * 1e-9);
}

void require_known(const std::vector<Recompute>& recompute, const Abilities& able,
                   const Costs& cost) {
  for (const Recompute asked : recompute)
    if (!able.knows(asked))
      invalid_input(
          "plan.recompute is \"{}\", the cost model ({}) is of layers under autograd, which do not "
          "know that; give \"nothing\", \"elementwise\", \"full\" or \"auto\"",
          to_string(asked), cost.origin.source);
}

void require_replicas(const Job& job, const Choices& choices, const Costs& cost) {
  if (job.replicas < 1)
    invalid_input("{} replicas (parallel.dp), the least is 1; give 1 or more", job.replicas);
  if (choices.most_merged < 1 || !std::has_single_bit(static_cast<unsigned>(choices.most_merged)))
    invalid_input("groups of up to {} replicas may merge, must be 1, 2, 4, 8, …; give one of these",
                  choices.most_merged);
  if (choices.most_merged > job.replicas)
    invalid_input("groups of up to {} replicas may merge, there are {}; give that many at most",
                  choices.most_merged, job.replicas);
  if (choices.most_merged > 1 << cost.kinds.front().merge.size())
    invalid_input("groups of up to {} replicas may merge, the cost model knows {}; {}",
                  choices.most_merged, 1 << cost.kinds.front().merge.size(),
                  "lower plan.most_merged or describe the links in [hardware]");
}

}  // namespace

void require_sensible(const StepQuestion& question) {
  const auto& [job, lengths, choices, cost] = question;
  require_lengths(lengths);
  require_replicas(job, choices, cost);
  require_speed(job);
  require_times(job, lengths, cost);
  if (choices.effort < 1)
    invalid_input("the planner's effort is {} rounds, the least is 1; 1 is usual", choices.effort);
  if (choices.time_budget < Nanos(0))
    invalid_input("the planner's time budget is {} ns, the least is 0; 0 = none",
                  choices.time_budget.count());
  if (choices.granularity < Tokens(1))
    invalid_input("granularity is {} tokens, the least is 1; 128 is usual",
                  choices.granularity.count());
  if (job.memory_cap && *job.memory_cap < Bytes(1))
    invalid_input("the memory cap is {} bytes, the least is 1; leave it out for no cap",
                  job.memory_cap->count());
  if (choices.planner != PlannerKind::kSlimpack && job.context < Tokens(1))
    invalid_input("the context is {} tokens, the least is 1; {} fills packs of it",
                  job.context.count(), to_string(choices.planner));
  if (choices.backward == BackwardKind::kSplit && cost.kinds.front().weight_gradient == EdgeTime())
    invalid_input(
        "backward is to be split, but the cost model does not know what part of it weight "
        "gradients are; set plan.backward to \"whole\", measure again with 'slimpack profile' or "
        "plan from [hardware]");
  if (cost.host.per_byte == 0 && first_offloading(choices.recompute))
    invalid_input(
        "rows are to be offloaded (plan.recompute), but the cost model ({}) does not know how fast "
        "host memory is; set hardware.host_bandwidth, measure with 'slimpack profile' on a GPU or "
        "choose another policy",
        cost.origin.source);
  const Abilities able = abilities(cost);
  if (job.layout.spread_vocabulary && !able.spreads_vocabulary)
    invalid_input(
        "parallel.spread_vocabulary is true, but the cost model ({}) is of layers under autograd, "
        "whose runtime keeps embedding and head whole; set it to false",
        cost.origin.source);
  if (choices.exchange_context && !able.exchanges_attention)
    invalid_input(
        "parallel.exchange_context is true, but the cost model ({}) has layers {}, which exchange "
        "no attention; set it to false",
        cost.origin.source, able.own_layers ? "under autograd" : "with a window");
  SLIMPACK_CHECK(!choices.recompute.empty());
  if (able.own_layers) require_known(choices.recompute, able, cost);
}

std::int32_t allowed_merging(std::int32_t wished, std::int32_t replicas, const Costs& cost) {
  return static_cast<std::int32_t>(std::bit_floor(
      static_cast<unsigned>(std::min({wished, replicas, abilities(cost).largest_merge}))));
}

}  // namespace slimpack
