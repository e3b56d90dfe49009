#include "tests/conformance/step_checks.h"
#include "tests/support/bound_costs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "slimpack/planner/best_order.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack::conformance {
namespace {

/// The first replica of the group that runs a pack.
std::size_t first_of(const MicroPack& pack, std::size_t replica) {
  return replica - replica % static_cast<std::size_t>(pack.replicas);
}

void require_tokens_once(const StepPlan& plan, Pass pass) {
  std::vector<std::vector<int>> times;
  for (const Tokens length : plan.lengths)
    times.emplace_back(static_cast<std::size_t>(length.count()), 0);
  for (std::size_t r = 0; r < plan.replicas.size(); ++r)
    for (const MicroPack& pack : plan.replicas[r].packs.of(pass)) {
      const std::size_t first = first_of(pack, r);
      RC_ASSERT(first + static_cast<std::size_t>(pack.replicas) <= plan.replicas.size());
      for (std::size_t m = first; m < first + static_cast<std::size_t>(pack.replicas); ++m) {
        const auto& packs = plan.replicas[m].packs.of(pass);
        RC_ASSERT(std::count(packs.begin(), packs.end(), pack) == 1);
      }
      if (r != first) continue;
      for (const Slice& slice : pack.slices)
        for (Tokens t = slice.begin; t < slice.end; t += Tokens(1))
          ++times.at(slice.sequence.index()).at(static_cast<std::size_t>(t.count()));
    }
  for (const std::vector<int>& of_sequence : times)
    RC_ASSERT(of_sequence == std::vector<int>(of_sequence.size(), 1));
}

/// All replicas, in the ids of the step.
std::vector<ReplicaPacks> costed(const RatedPlan& step, const Costs& cost,
                                 const std::vector<std::vector<double>>& speed) {
  const StageTable table =
      stage_table(cost, step.plan.layout, step.plan.recompute,
                  {static_cast<std::int32_t>(step.plan.replicas.size()), speed});
  std::vector<ReplicaPacks> out;
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
    const PackPlan& packs = step.plan.replicas[r].packs;
    out.push_back({packs, table.times(packs, ReplicaId(r)),
                   table.bytes(packs, step.plan.lengths, Counted::kAll, ReplicaId(r))});
    table.add_exchanges(out.back(), step.schedules[r].exchanges, ReplicaId(r));
  }
  return out;
}

SimulationResult simulated(const RatedPlan& step, const Costs& cost,
                           const std::vector<std::vector<double>>& speed, bool timeline) {
  return simulate(costed(step, cost, speed), step.schedules, {.timeline = timeline});
}

/// Nanoseconds that tokens and pairs alone take a rank's stages at speed 1, forward and backward.
double work_of(const StepPlan& plan, const RecomputingCosts& cost, std::size_t rank) {
  double work = 0;
  const auto stages = static_cast<std::size_t>(plan.layout.stages());
  for (std::size_t s = rank; s < stages; s += static_cast<std::size_t>(plan.layout.ranks()))
    for (const Pass pass : kWholePasses) {
      PackCost terms = stage_cost(cost, plan.layout, StageId(s), pass);
      terms.per_slice = 0;
      for (const Tokens length : plan.lengths)
        work += terms(Slice{SequenceId(), Tokens(0), length});
    }
  return work;
}

/// [start, end) of every pass of every pack on every stage; of a split backward, its input
/// gradients, and its weight gradients apart.
class Times {
 public:
  Times(const RatedPlan& step, const Timeline& timeline)
      : stages_(static_cast<std::size_t>(step.plan.layout.stages())),
        ranks_(static_cast<std::size_t>(step.plan.layout.ranks())) {
    for (const ReplicaPlan& replica : step.plan.replicas)
      for (std::size_t s = 0; s < stages_; ++s)
        spans_.push_back({std::vector<Span>(replica.packs.forward.size()),
                          std::vector<Span>(replica.packs.backward.size())});
    for (const Span& span : timeline.spans) {
      auto& stage = stage_of(span);
      if (span.kind == SpanKind::kForward) stage[0].at(span.pack.index()) = span;
      if (span.kind == SpanKind::kBackward || span.kind == SpanKind::kInputGradient)
        stage[1].at(span.pack.index()) = span;
      if (span.kind == SpanKind::kWeightGradient) put_off_.push_back(span);
    }
  }
  [[nodiscard]] const Span& of(std::size_t replica, std::size_t stage, Pass pass,
                               std::size_t pack) const {
    return spans_[replica * stages_ + stage][pass == Pass::kBackward][pack];
  }
  void require_weights_after_inputs() {
    for (const Span& weights : put_off_)
      RC_ASSERT(stage_of(weights)[1].at(weights.pack.index()).end <= weights.start);
  }

 private:
  using ByPass = std::array<std::vector<Span>, 2>;  ///< [pass][pack]
  [[nodiscard]] ByPass& stage_of(const Span& span) {
    const auto rank = static_cast<std::size_t>(span.rank);
    return spans_.at(rank / ranks_ * stages_ + span.stage.index());
  }

  std::size_t stages_, ranks_;  ///< of a replica
  std::vector<ByPass> spans_;   ///< by stage of each replica
  std::vector<Span> put_off_;
};

/// Packs of one pass that hold slices of a sequence, in the order in which they run.
std::vector<std::size_t> packs_with(SequenceId sequence, const std::vector<MicroPack>& packs) {
  std::vector<std::pair<Tokens, std::size_t>> found;
  for (std::size_t p = 0; p < packs.size(); ++p)
    for (const Slice& slice : packs[p].slices)
      if (slice.sequence == sequence) found.emplace_back(slice.begin, p);
  std::sort(found.begin(), found.end());
  std::vector<std::size_t> out;
  for (const auto& [begin, pack] : found) out.push_back(pack);
  return out;
}

void require_sequence_causal(const RatedPlan& step, const Times& times, std::size_t replica,
                             SequenceId sequence) {
  const PackPlan& packs = step.plan.replicas[replica].packs;
  const auto stages = static_cast<std::size_t>(step.plan.layout.stages());
  const std::vector<std::size_t> forward = packs_with(sequence, packs.forward);
  std::vector<std::size_t> backward = packs_with(sequence, packs.backward);
  std::reverse(backward.begin(), backward.end());  // from its tail
  for (const auto& [chain, pass] :
       {std::pair(&forward, Pass::kForward), {&backward, Pass::kBackward}})
    for (std::size_t i = 0; i < chain->size(); ++i)
      for (std::size_t s = 0; s < stages; ++s) {
        const Span& span = times.of(replica, s, pass, (*chain)[i]);
        if (i > 0) RC_ASSERT(times.of(replica, s, pass, (*chain)[i - 1]).end <= span.start);
        const bool first = s == (goes_back(pass) ? stages - 1 : 0);
        if (!first)
          RC_ASSERT(times.of(replica, goes_back(pass) ? s + 1 : s - 1, pass, (*chain)[i]).end <=
                    span.start);
      }
  for (std::size_t s = 0; s < stages; ++s)
    RC_ASSERT(times.of(replica, s, Pass::kForward, forward.back()).end <=
              times.of(replica, s, Pass::kBackward, backward.front()).start);
}

}  // namespace

void require_every_token_once(const StepPlan& plan) {
  for (const Pass pass : kWholePasses) require_tokens_once(plan, pass);
}

void require_correct(const MadeStep& made) {
  const PlanRequest& request = made.request;
  const RunnablePlan& step = made.step;
  RC_ASSERT(step.plan.lengths == request.lengths);
  RC_ASSERT(step.plan.layout.ranks() == request.pp);
  RC_ASSERT(step.plan.layout.placement.stages_per_rank() == request.stages_per_rank);
  RC_ASSERT(step.plan.replicas.size() == static_cast<std::size_t>(request.dp));
  RC_ASSERT(step.speed == request.speed);
  RC_ASSERT(step.plan.recompute.size() ==
            static_cast<std::size_t>(step.plan.layout.layer_begin.back()));
  for (const Recompute recompute : step.plan.recompute) {
    RC_ASSERT(std::count(request.recompute.begin(), request.recompute.end(), recompute) > 0);
    RC_ASSERT(request.mixed_recompute || recompute == step.plan.recompute.front());
  }
  RC_ASSERT(check_plan(step.plan) == std::vector<std::string>{});
  RC_ASSERT(check_step(step.plan, step.schedules) == std::vector<std::string>{});
  RC_ASSERT(check_lowered(step.plan, step.lowered) == std::vector<std::string>{});
  for (std::size_t r = 0; r < step.lowered.size(); ++r)
    RC_ASSERT(actions_of(step.lowered[r]) == step.schedules[r]);
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const auto* pass : {&replica.packs.forward, &replica.packs.backward})
      for (const MicroPack& pack : *pass) {
        RC_ASSERT(pack.replicas <= made.most_merged);
        for (const Slice& slice : pack.slices) {
          RC_ASSERT(slice.begin.count() % made.unit.count() == 0);
          if (slice.end < request.lengths[slice.sequence.index()])
            RC_ASSERT(slice.end.count() % made.unit.count() == 0);
        }
      }
}

void require_causal(const RatedPlan& step, const Costs& cost) {
  Times times(step, simulated(step, cost, step.speed, true).timeline);
  times.require_weights_after_inputs();
  const auto stages = static_cast<std::size_t>(step.plan.layout.stages());
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
    const ReplicaPlan& replica = step.plan.replicas[r];
    for (const SequenceId sequence : replica.sequences)
      require_sequence_causal(step, times, r, sequence);
    for (const Pass pass : kWholePasses) {
      const auto& packs = replica.packs.of(pass);
      for (std::size_t p = 0; p < packs.size(); ++p) {
        const std::size_t first = first_of(packs[p], r);
        if (first == r) continue;
        const auto& theirs = step.plan.replicas[first].packs.of(pass);
        const auto same = static_cast<std::size_t>(
            std::find(theirs.begin(), theirs.end(), packs[p]) - theirs.begin());
        for (std::size_t s = 0; s < stages; ++s)
          RC_ASSERT(times.of(r, s, pass, p).start == times.of(first, s, pass, same).start);
      }
    }
  }
}

void require_predicted(const MadeStep& made, const Costs& cost) {
  const RunnablePlan& step = made.step;
  const SimulationResult again = simulated(step, cost, step.speed, false);
  RC_ASSERT(step.prediction.makespan == again.makespan);
  RC_ASSERT(step.prediction.peak_activation == again.peak_activation);
  RC_ASSERT(step.prediction.busy == again.busy);
  const StageLayout& layout = step.plan.layout;
  const auto ranks = static_cast<std::size_t>(layout.ranks());
  const RecomputingCosts planned = with_recompute(cost, step.plan.recompute);
  // No policy has less work than the one that keeps everything, and the bound is below all of them.
  const RecomputingCosts least = with_recompute(cost, Recompute::kNothing);
  double work_of_all = 0, done_by_all = 0;
  for (std::size_t p = 0; p < ranks; ++p) {
    const double work = work_of(step.plan, planned, p);
    double speed = 0;  // of all replicas
    double done = 0;   // work at speed 1, and roundings of a nanosecond
    for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
      const double own = step.speed.empty() ? 1 : step.speed[r][p];
      const PackPlan& packs = step.plan.replicas[r].packs;
      speed += own;
      done += own * (static_cast<double>(again.busy[r * ranks + p].count()) +
                     layout.placement.stages_per_rank() *
                         static_cast<double>(packs.forward.size() + packs.backward.size()));
    }
    work_of_all += work;
    done_by_all += done;
    // A rank may give a part of its work away.
    if (made.request.exchange_context || has_exchanges(step)) continue;
    RC_ASSERT(done >= work * (1 - 1e-9));
    // The bound leaves out what rounding may save.
    RC_ASSERT(static_cast<double>(step.lower_bound.count()) * (1 + 1e-3) + 100 >=
              work_of(step.plan, least, p) / speed);
  }
  RC_ASSERT(done_by_all >= work_of_all * (1 - 1e-9));
  RC_ASSERT(step.lower_bound > Nanos(0));
  RC_ASSERT(step.lower_bound <= step.prediction.makespan);
  const double ratio = static_cast<double>(step.prediction.makespan.count()) /
                       static_cast<double>(step.lower_bound.count());
  RC_ASSERT(std::abs(step.gap() - (ratio - 1)) <= 1e-12 * ratio);
}

void require_memory(const MadeStep& made, const Costs& cost,
                    const std::vector<std::vector<double>>& drift) {
  const RunnablePlan& step = made.step;
  const auto ranks = static_cast<std::size_t>(step.plan.layout.ranks());
  const std::vector<Bytes> needs = rank_needs(step, cost);
  const std::vector<Bytes> drifted = simulated(step, cost, drift, false).peak_activation;
  RC_ASSERT(step.prediction.peak_activation.size() == ranks * step.plan.replicas.size());
  for (std::size_t rank = 0; rank < drifted.size(); ++rank) {
    RC_ASSERT(step.prediction.peak_activation[rank] <= needs[rank % ranks]);
    RC_ASSERT(drifted[rank] <= needs[rank % ranks]);
  }
  if (!made.request.memory_cap) return;
  const Bytes cap = *made.request.memory_cap;
  for (std::size_t rank = 0; rank < drifted.size(); ++rank)
    RC_ASSERT(std::max(step.prediction.peak_activation[rank], drifted[rank]) <= cap);
  // The bytes that a rank would hold if it ran by itself may be more than merged packs let it hold.
  if (made.most_merged > 1) return;
  for (const Bytes need : needs) RC_ASSERT(need <= cap);
}

void require_round_trip(const RatedPlan& step, const Costs& cost) {
  const std::string text = plan_file_to_json(step, cost);
  const PlanFile file = plan_file_from_json(text, "test");
  require_same(file.step, step);
  RC_ASSERT(file.cost == cost);
  RC_ASSERT(plan_file_to_json(file.step, file.cost) == text);
}

void require_same(const RatedPlan& a, const RatedPlan& b) {
  RC_ASSERT(a.plan == b.plan);
  RC_ASSERT(a.schedules == b.schedules);
  RC_ASSERT(a.speed == b.speed);
  RC_ASSERT(a.lower_bound == b.lower_bound);
  RC_ASSERT(a.prediction.makespan == b.prediction.makespan);
  RC_ASSERT(a.prediction.busy == b.prediction.busy);
  RC_ASSERT(a.prediction.peak_activation == b.prediction.peak_activation);
}

void require_conforming(const MadeStep& made, const Workload& workload) {
  require_every_token_once(made.step.plan);
  require_correct(made);
  require_causal(made.step, workload.cost);
  require_predicted(made, workload.cost);
  require_memory(made, workload.cost, workload.speed);
  require_round_trip(made.step, workload.cost);
}

}  // namespace slimpack::conformance
