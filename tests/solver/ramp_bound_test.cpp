#include "slimpack/solver/ramp_bound.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/solver/step_bound.h"
#include "tests/solver/random_job.h"
#include "tests/support/simulate_packs.h"

namespace slimpack {
namespace {

TEST(RampBound, WeighsTheWaitAgainstOverheads) {
  // Two stages of one cost: a MicroPack waits for its own time on the first. Backward takes twice
  // as long, so that n MicroPacks reach 7 with a wait of 7 · 2 / (3ⁿ − 1): 7, 1.75, 0.54, 0.18.
  // With an overhead of 1 three are best: 0.54 and two more overheads, beside the first MicroPack's
  // own two.
  EXPECT_NEAR(ramp_bound({.overhead = 1, .first = 1, .between = 0, .most_other = 2}, 7),
              2 + 7.0 / 13 + 2, 1e-9);
  // With two more stages before, 3·fᵢ ≤ wait + 2 · Σ: n reach 7 with 7 · 2 / ((5/3)ⁿ − 1), and the
  // first has four overheads: 7.875, 3.857, 2.085 for n = 2, 3, 4, so five of 1.175 + 4, four of
  // 2.085 + 3 and three of 3.857 + 2 compare.
  EXPECT_NEAR(ramp_bound({.overhead = 1, .first = 1, .between = 2, .most_other = 2}, 7),
              4 + 14 / (625.0 / 81 - 1) + 3, 1e-9);
  // Where MicroPacks cost nothing by themselves, none has to wait.
  EXPECT_EQ(ramp_bound({.overhead = 0, .first = 1, .between = 2, .most_other = 2}, 7), 0);
  // Nothing runs meanwhile: 7/n wait for the first stage, 7/3 + 2 is least.
  EXPECT_NEAR(ramp_bound({.overhead = 1, .first = 1, .between = 0, .most_other = 0}, 7),
              2 + 7.0 / 3 + 2, 1e-9);
}

/// A step of one replica, of equal documents that stay whole: MicroPacks take so many of them.
struct Cut {
  std::vector<int> forward;
  std::vector<int> backward;
};

/// A pipeline of one replica whose layers cost alike; nothing but documents of 16 tokens.
testing::RandomJob equal_documents(Rng& rng) {
  testing::RandomJob job = testing::random_job(rng);
  job.replicas = job.most_merged = 1;
  job.speed.clear();
  job.granularity = Tokens(16);
  LayerCosts& layer = job.cost.kinds.front();
  layer = {};
  layer.forward.per_pack = 1000 + 100'000 * rng.uniform();
  layer.forward.per_token = 1000;
  layer.backward.per_pack = 1000 + 100'000 * rng.uniform();
  layer.backward.per_token = 1000 + 2000 * rng.uniform();
  if (rng.below(2) == 0)
    layer.weight_gradient = {layer.backward.per_pack * rng.uniform(),
                             layer.backward.per_token * rng.uniform()};
  job.cost.ends = {};
  job.layout = {{0}};
  for (std::uint64_t s = 2 + rng.below(4); s > 0; --s)
    job.layout.layer_begin.push_back(job.layout.layer_begin.back() + 1 +
                                     static_cast<std::int32_t>(rng.below(4) == 0));
  job.cost.shape.set_layers(job.layout.layer_begin.back());
  job.lengths.assign(8 + rng.below(40), Tokens(16));
  return job;
}

std::vector<MicroPack> packs_of(const std::vector<int>& counts) {
  std::vector<MicroPack> packs;
  std::size_t next = 0;
  for (const int count : counts) {
    MicroPack& pack = packs.emplace_back();
    for (int i = 0; i < count; ++i)
      pack.slices.push_back({SequenceId(next++), Tokens(0), Tokens(16)});
  }
  return packs;
}

std::int64_t makespan(const testing::RandomJob& job, const Cut& cut) {
  const PackPlan packs{packs_of(cut.forward), packs_of(cut.backward)};
  const TaskTimes times = job.table().times(packs);
  const TaskBytes bytes = task_bytes(job.cost, job.layout, packs, job.lengths);
  const ReplicaPacks replica{packs, times, bytes};
  const ListScheduler scheduler(std::span(&replica, 1), kChannelSlots, 1);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int32_t split_from : {scheduler.backwards(), 0}) {
    ListPolicy policy;
    policy.split_from = split_from;
    const auto listed = scheduler.run({}, policy);
    least = std::min(
        least, testing::simulate(packs, listed->schedule, times, bytes, {kChannelSlots, false})
                   .makespan.count());
    if (job.cost.kinds.front().weight_gradient == EdgeTime()) break;
  }
  return least;
}

/// Moves, joins or splits documents of one pass.
void change(Rng& rng, std::vector<int>& counts) {
  const std::size_t at = rng.below(counts.size());
  switch (rng.below(3)) {
    case 0:
      if (at + 1 < counts.size() && counts[at] > 1) --counts[at], ++counts[at + 1];
      break;
    case 1:
      if (at > 0 && counts[at] > 1) --counts[at], ++counts[at - 1];
      break;
    default:
      if (counts[at] > 1) {
        const int half = counts[at] / 2;
        counts[at] -= half;
        counts.insert(counts.begin() + static_cast<std::ptrdiff_t>(at), half);
      } else if (at + 1 < counts.size()) {
        counts[at + 1] += counts[at];
        counts.erase(counts.begin() + static_cast<std::ptrdiff_t>(at));
      }
  }
}

/// MicroPacks of `each` documents; the last has what is left.
std::vector<int> equal_counts(int documents, int each) {
  std::vector<int> counts(static_cast<std::size_t>((documents + each - 1) / each), each);
  counts.back() -= static_cast<int>(counts.size()) * each - documents;
  return counts;
}

/// The shortest step that a climb from the best of equal MicroPacks finds.
std::int64_t climbed(Rng& rng, const testing::RandomJob& job) {
  Cut best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto keep = [&](Cut cut) {
    const std::int64_t time = makespan(job, cut);
    if (time > least) return;
    least = time;
    best = std::move(cut);
  };
  for (const int each : {1, 2, 3, 5, 8}) {
    const auto counts = equal_counts(static_cast<int>(job.lengths.size()), each);
    keep({counts, counts});
  }
  for (int trial = 0; trial < 400; ++trial) {
    Cut other = best;
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n)
      change(rng, rng.below(2) == 0 ? other.forward : other.backward);
    keep(std::move(other));
  }
  return least;
}

RC_GTEST_PROP(RampBound, NoStepThatAClimbFindsIsBelowTheBoundOfTheStep, (std::uint64_t seed)) {
  Rng rng(seed);
  const testing::RandomJob job = equal_documents(rng);
  const Nanos bound = step_actions_bound({job.table(), job.lengths, job});
  RC_ASSERT(bound.count() <= climbed(rng, job));
}

}  // namespace
}  // namespace slimpack
