#include "slimpack/sim/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "tests/sim/random_case.h"

namespace slimpack {
namespace {

using testing::random_simulation_case;
using testing::SimulationCase;

struct StartAndPut {
  std::int64_t start = 0;
  std::int64_t put = 0;
};

/// Naive longest path: every time starts at 0 and is raised until no rule is broken.
class LongestPath {
 public:
  explicit LongestPath(const SimulationCase& c) : case_(c) {
    for (bool raised = true; raised;) {
      raised = false;
      for (const auto& actions : c.schedule.stages)
        for (std::size_t i = 0; i < actions.size(); ++i)
          raised |= raise(actions[i], i == 0 ? nullptr : &actions[i - 1]);
    }
  }

  [[nodiscard]] const StartAndPut& of(const Action& action) const { return times_.at(action); }
  [[nodiscard]] std::int64_t duration(const Action& a) const {
    const auto& table = a.pass == Pass::kForward ? case_.times.forward : case_.times.backward;
    return table[a.stage.index()][a.pack.index()].count();
  }
  [[nodiscard]] std::int64_t makespan() const {
    std::int64_t work = 0;
    for (const auto& [action, time] : times_)
      work = std::max(work, time.put + case_.times.reduce[action.stage.index()].count());
    std::int64_t longest = 0;
    for (const Nanos end : case_.times.step_end) longest = std::max(longest, end.count());
    return work + longest;
  }

 private:
  bool raise(const Action& a, const Action* before) {
    const bool forward = a.pass == Pass::kForward;
    const std::int32_t up = forward ? -1 : 1;
    const std::int32_t last = case_.stages() - 1;
    const std::int32_t s = a.stage.value();
    StartAndPut next = times_[a];
    if (before != nullptr) next.start = std::max(next.start, times_[*before].put);
    if (s + up >= 0 && s + up <= last)
      next.start =
          std::max(next.start, times_[{StageId(s + up), a.pass, a.pack}].put +
                                   (forward ? case_.times.forward_transfer
                                            : case_.times.backward_transfer)[a.pack.index()]
                                       .count());
    next.put = std::max(next.put, next.start + duration(a));
    if (s - up >= 0 && s - up <= last && a.pack.value() >= case_.slots)
      next.put = std::max(
          next.put, times_[{StageId(s - up), a.pass, PackId(a.pack.value() - case_.slots)}].start);
    const bool raised = next.start > times_[a].start || next.put > times_[a].put;
    times_[a] = next;
    return raised;
  }

  const SimulationCase& case_;
  std::map<Action, StartAndPut> times_;
};

RC_GTEST_PROP(Simulate, AgreesWithANaiveLongestPath, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  const LongestPath oracle(c);
  const auto result = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  RC_ASSERT(result.makespan.count() == oracle.makespan());
  std::map<Action, Span> spans;
  for (const Span& span : result.timeline.spans)
    if (span.kind == SpanKind::kForward || span.kind == SpanKind::kBackward)
      spans[{StageId(span.rank), span.kind == SpanKind::kForward ? Pass::kForward : Pass::kBackward,
             span.pack}] = span;
  for (const auto& actions : c.schedule.stages)
    for (const Action& action : actions) {
      if (oracle.duration(action) == 0) continue;  // nothing to draw
      RC_ASSERT(spans.at(action).start.count() == oracle.of(action).start);
      RC_ASSERT(spans.at(action).end.count() == oracle.of(action).start + oracle.duration(action));
    }
}

RC_GTEST_PROP(Simulate, SpansOfARankFollowEachOtherWithoutHoles, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  const auto result = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  RC_ASSERT(result.timeline.ranks == c.stages());
  std::vector<std::int64_t> at(static_cast<std::size_t>(c.stages()), 0);
  std::vector<std::int64_t> busy(at);
  for (const Span& span : result.timeline.spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    RC_ASSERT(span.start.count() == at[rank]);
    RC_ASSERT(span.end > span.start);
    at[rank] = span.end.count();
    if (is_busy(span.kind)) busy[rank] += span.end.count() - span.start.count();
  }
  RC_ASSERT(*std::max_element(at.begin(), at.end()) == result.makespan.count());
  for (std::size_t s = 0; s < busy.size(); ++s) RC_ASSERT(busy[s] == result.busy[s].count());
}

RC_GTEST_PROP(Simulate, RatingAloneGivesTheSameFigures, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  const auto full = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  const auto rating = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, false});
  RC_ASSERT(rating.makespan == full.makespan);
  RC_ASSERT(rating.busy == full.busy);
  RC_ASSERT(rating.peak_activation == full.peak_activation);
  RC_ASSERT(rating.lower_bound == full.lower_bound);
  RC_ASSERT(rating.timeline.peak_activation == full.peak_activation);
  RC_ASSERT(rating.timeline.spans.empty() && rating.timeline.memory.empty());
}

TEST(Simulate, OneFOneBOfEqualPacksTakesTheKnownTime) {
  // m equal packs on p stages, forward 1, backward 2: (m + p − 1) · 3; busy m · 3 per stage, so the
  // bubble ratio is (p − 1) / (m + p − 1) (Narayanan et al. 2021).
  constexpr int kStages = 4;
  constexpr std::size_t kPacks = 8;
  PackPlan packs;
  for (std::size_t q = 0; q < kPacks; ++q)
    packs.forward.push_back({{{SequenceId(q), Tokens(0), Tokens(5)}}});
  packs.backward = packs.forward;
  TaskTimes times;
  times.forward.assign(kStages, std::vector<Nanos>(kPacks, Nanos(1)));
  times.backward.assign(kStages, std::vector<Nanos>(kPacks, Nanos(2)));
  times.forward_transfer.assign(kPacks, Nanos(0));
  times.backward_transfer.assign(kPacks, Nanos(0));
  times.reduce.assign(kStages, Nanos(0));
  times.step_end.assign(kStages, Nanos(0));
  TaskBytes bytes;
  bytes.layers.assign(kStages, 1);
  bytes.rows.assign(kStages, std::vector<Bytes>(kPacks, Bytes(1)));
  bytes.kv.assign(kStages, std::vector<Bytes>(kPacks, Bytes(0)));
  bytes.dkv = bytes.kv;
  bytes.forward_transient = bytes.kv;
  bytes.backward_transient = bytes.kv;
  bytes.forward_input.assign(kPacks, Bytes(0));
  bytes.backward_input.assign(kPacks, Bytes(0));
  const auto result = simulate(packs, one_f_one_b(packs, kStages), times, bytes);
  EXPECT_EQ(result.makespan, Nanos(33));
  EXPECT_DOUBLE_EQ(result.bubble_ratio, 3.0 / 11.0);
  EXPECT_EQ(result.busy, std::vector<Nanos>(kStages, Nanos(24)));
  // Stage s holds the rows of its p − s − 1 warm-up packs and of the pack that it runs.
  EXPECT_EQ(result.peak_activation, (std::vector<Bytes>{Bytes(4), Bytes(3), Bytes(2), Bytes(1)}));
  // Work of a stage 24; the last one cannot start before 3 nor be the end before 6 more: 33.
  EXPECT_EQ(result.lower_bound, Nanos(33));
  EXPECT_DOUBLE_EQ(result.gap(), 0);
}

}  // namespace
}  // namespace slimpack
