#include "slimpack/solver/step_bound.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "slimpack/sim/simulate.h"
#include "tests/solver/random_cut.h"
#include "tests/support/bound_costs.h"
#include "tests/support/list_schedule.h"
#include "tests/support/simulate_packs.h"

namespace slimpack {
namespace {

using testing::JobCut;
using testing::list_schedule;
using testing::RandomJob;
using testing::simulate;

Nanos lower_bound(const RandomJob& job) {
  return step_lower_bound({job.table(), job.lengths, job});
}

Nanos actions_bound(const RandomJob& job) {
  return step_actions_bound({job.table(), job.lengths, job});
}

/// Simulated, under list schedules without a cap or with as little memory as they need.
Nanos makespan_of(Rng& rng, const RandomJob& job, const JobCut& cut) {
  std::vector<PackPlan> packs(cut.plan.replicas.size());
  std::vector<TaskTimes> times(packs.size());
  std::vector<TaskBytes> bytes(packs.size());
  std::vector<Schedule> schedules(packs.size());
  for (std::size_t u = 0; u < cut.units.size(); ++u) {
    std::vector<ReplicaPacks> views;
    for (std::size_t i = 0; i < cut.units[u].replicas.size(); ++i) {
      const ReplicaShare& share = cut.units[u].replicas[i];
      const std::size_t r = share.replica.index();
      packs[r] = cut.packs[u][i];
      times[r] = job.table().times(packs[r], ReplicaId(r));
      bytes[r] = task_bytes(job.cost, job.layout, packs[r], share.lengths);
      views.push_back({packs[r], times[r], bytes[r]});
    }
    const ListScheduler scheduler(views, kChannelSlots, job.layout.placement.stages_per_rank());
    ListPolicy policy;
    if (job.cost.kinds.front().weight_gradient != EdgeTime())
      policy.split_from = static_cast<std::int32_t>(rng.below(4));
    const auto listed =
        scheduler.run(rng.below(2) == 0 ? std::vector<Bytes>{} : scheduler.least_memory(), policy);
    for (const ReplicaShare& share : cut.units[u].replicas)
      schedules[share.replica.index()] = own_order(listed->schedule, packs[share.replica.index()]);
  }
  std::vector<ReplicaPacks> tasks;
  for (std::size_t r = 0; r < packs.size(); ++r) tasks.push_back({packs[r], times[r], bytes[r]});
  return simulate(tasks, with_vocabulary(cut.plan, std::move(schedules)), {kChannelSlots, false})
      .makespan;
}

/// `granularity` is that of the cut, a multiple of the job's.
void expect_bounded(Rng& rng, const RandomJob& job, Tokens granularity) {
  RandomJob coarse = job;
  coarse.granularity = granularity;
  const JobCut cut = testing::random_cut(rng, coarse);
  RC_ASSERT(lower_bound(job).count() <= makespan_of(rng, job, cut).count());
}

RC_GTEST_PROP(StepBound, NoFluidCutIsFaster, (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = testing::random_job(rng);
  expect_bounded(rng, job, job.granularity);
}

RC_GTEST_PROP(StepBound, NoPackingOfWholeSequencesIsFaster, (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = testing::random_job(rng);
  expect_bounded(rng, job, job.granularity * 1'000'000);
}

RC_GTEST_PROP(StepBound, HoldsToTheNanosecondWhereTimesAreFewOfThem, (std::uint64_t seed)) {
  Rng rng(seed);
  RandomJob job = testing::random_job(rng);
  const double scale = 0.001 + 0.1 * rng.uniform();
  for (PackCost* layer : {&job.cost.kinds.front().forward, &job.cost.kinds.front().backward})
    for (double* term : {&layer->per_pack, &layer->per_slice, &layer->per_token, &layer->per_pair,
                         &layer->per_prefix_token})
      *term *= scale;
  job.cost.ends.embedding_forward = job.cost.ends.head_backward = {};
  job.cost.kinds.front().merge.assign(3, {});
  job.cost.transfer.latency = job.cost.transfer.per_byte = 0;
  expect_bounded(rng, job, job.granularity);
}

/// A few long sequences on a pipeline that they fill, with small costs around them.
RandomJob long_sequences(Rng& rng) {
  RandomJob job = testing::random_job(rng);
  job.replicas = job.most_merged = 1;
  job.speed.clear();
  job.cost.kinds.front().weight_gradient = {};
  job.cost.transfer.latency = job.cost.transfer.per_byte = 0;
  job.layout = {{0}};
  for (std::uint64_t stages = 2 + rng.below(5); stages > 0; --stages)
    job.layout.layer_begin.push_back(job.layout.layer_begin.back() + 1 +
                                     static_cast<std::int32_t>(rng.below(4) == 0));
  job.cost.shape.set_layers(job.layout.layer_begin.back());
  job.granularity = Tokens(8 << rng.below(3));
  const auto longest = static_cast<std::int64_t>(256 << rng.below(4));
  job.lengths.clear();
  for (std::uint64_t count = 2 + rng.below(8); count > 0; --count)
    job.lengths.emplace_back(rng.below(4) > 0 ? longest - static_cast<std::int64_t>(rng.below(16))
                                              : 1 + static_cast<std::int64_t>(rng.below(
                                                        static_cast<std::uint64_t>(longest))));
  return job;
}

RC_GTEST_PROP(StepBound, NoPlanIsFasterThanItsMemoryAllows, (std::uint64_t seed)) {
  Rng rng(seed);
  RandomJob job = long_sequences(rng);
  const JobCut cut = testing::random_cut(rng, job);
  const PackPlan& packs = cut.packs.front().front();
  const TaskTimes times = task_times(job.cost, job.layout, packs);
  const TaskBytes bytes = task_bytes(job.cost, job.layout, packs, job.lengths);
  const std::vector<ReplicaPacks> tasks{{packs, times, bytes}};
  const ListScheduler scheduler(tasks);
  for (const double cap : {1.0, 1.1, 1.5, 2.5}) {
    std::vector<Bytes> caps = scheduler.least_memory();
    const Bytes most(static_cast<std::int64_t>(
        cap * static_cast<double>(std::ranges::max_element(caps)->count())));
    std::ranges::fill(caps, most);
    for (const Pass first : {Pass::kBackward, Pass::kForward}) {
      const std::vector<Schedule> schedules{scheduler.run(caps, {.first = first})->schedule};
      const SimulationResult result = simulate(tasks, schedules, {kChannelSlots, false});
      job.memory_cap = *std::ranges::max_element(result.peak_activation);
      RC_ASSERT(lower_bound(job).count() <= result.makespan.count());
    }
  }
}

RC_GTEST_PROP(StepBound, RecomputationNeverLowersIt, (std::uint64_t seed)) {
  Rng rng(seed);
  RandomJob job = testing::random_job(rng);
  const EdgeTime& weights = job.cost.kinds.front().weight_gradient;
  job.cost.kinds.front().elementwise = {
      (job.cost.kinds.front().backward.per_pack - weights.per_pack) * rng.uniform(),
      (job.cost.kinds.front().backward.per_token - weights.per_token) * rng.uniform()};
  job.cost.host.per_byte = rng.uniform();
  const Costs cost = job.cost;
  job.cost = with_recompute(cost, Recompute::kNothing);
  const Nanos plain = lower_bound(job);
  for (const Recompute recompute : all_recomputations()) {
    job.cost = with_recompute(cost, recompute);
    RC_ASSERT(lower_bound(job) >= plain);
    expect_bounded(rng, job, job.granularity);
  }
}

RC_GTEST_PROP(StepBound, MoreReplicasAndLargerGroupsNeverRaiseIt, (std::uint64_t seed)) {
  Rng rng(seed);
  RandomJob job = testing::random_job(rng);
  job.speed.clear();
  job.cost.reduction.latency = job.cost.reduction.per_byte = 0;
  const Nanos before = actions_bound(job);
  if (2 * job.most_merged <= job.replicas && job.most_merged < 8) {
    job.most_merged *= 2;
    RC_ASSERT(actions_bound(job) <= before);
    job.most_merged /= 2;
  }
  job.replicas += 1;
  RC_ASSERT(actions_bound(job) <= before);
}

/// Every way to cut `granules` into slices, as lengths.
std::vector<std::vector<std::int64_t>> compositions(std::int64_t granules) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::uint64_t cuts = 0; cuts < std::uint64_t{1} << (granules - 1); ++cuts) {
    auto& parts = all.emplace_back(1, 1);
    for (std::int64_t g = 0; g + 1 < granules; ++g)
      if ((cuts >> g & 1) != 0)
        parts.push_back(1);
      else
        ++parts.back();
  }
  return all;
}

RC_GTEST_PROP(StepBound, NoCutOfASingleSequenceIsFaster, (std::uint64_t seed)) {
  Rng rng(seed);
  RandomJob job = testing::random_job(rng);
  job.replicas = job.most_merged = 1;
  if (!job.speed.empty()) job.speed.resize(1);
  // Prefixes may cost so much that a longer slice is a cheaper one.
  if (rng.below(2) == 0) job.cost.kinds.front().forward.per_prefix_token *= 100;
  // The ends may cost so much that no stage has as much work as the chain.
  if (rng.below(2) == 0) {
    job.cost.ends.embedding_forward.per_token = job.cost.ends.head_backward.per_token =
        10 * job.cost.kinds.front().backward.per_token;
    for (PackCost* layer : {&job.cost.kinds.front().forward, &job.cost.kinds.front().backward})
      layer->per_pack = layer->per_slice = 0;
  }
  const std::int64_t granules = 1 + static_cast<std::int64_t>(rng.below(4));
  const std::int64_t g = job.granularity.count();
  const Tokens length(granules * g - static_cast<std::int64_t>(rng.below(g)));
  job.lengths = {length};
  const Nanos bound = lower_bound(job);
  for (const auto& forward : compositions(granules))
    for (const auto& backward : compositions(granules)) {
      PackPlan packs;
      std::int64_t at = 0;
      for (const std::int64_t part : forward)
        packs.forward.push_back(
            {{{SequenceId(0), Tokens(at), std::min(length, Tokens(at += part * g))}}});
      for (const std::int64_t part : backward)
        packs.backward.push_back(
            {{{SequenceId(0), Tokens(at - part * g), std::min(length, Tokens(at))}}}),
            at -= part * g;
      const TaskTimes times = job.table().times(packs);
      const TaskBytes bytes = task_bytes(job.cost, job.layout, packs, job.lengths);
      const StepPlan plan{.lengths = job.lengths, .layout = job.layout, .replicas = {{{}, packs}}};
      const std::int32_t stages_per_rank = job.layout.placement.stages_per_rank();
      const auto listed = list_schedule(packs, times, bytes,
                                        {.memory_cap = {}, .stages_per_rank = stages_per_rank});
      const Schedule schedule = with_vocabulary(plan, {*listed}).front();
      RC_ASSERT(bound.count() <= simulate(packs, schedule, times, bytes).makespan.count());
    }
}

/// A microsecond a token forward, two backward, in one layer on each of two stages; nothing else.
RandomJob plain_job() {
  RandomJob job;
  job.granularity = Tokens(16);
  job.cost.shape = Decoder{};
  job.cost.kinds.front().forward.per_token = 1000;
  job.cost.kinds.front().backward.per_token = 2000;
  job.layout.layer_begin = {0, 1, 2};
  job.cost.shape.set_layers(2);
  return job;
}

/// To the rounding that the bound allows for.
void expect_bound(const RandomJob& job, std::int64_t nanos) {
  EXPECT_LE(lower_bound(job), Nanos(nanos));
  EXPECT_GE(lower_bound(job), Nanos(nanos - 2 - nanos / 10'000));
}

TEST(StepBound, CountsTheWorkOfAStageAndTheWayInAndOut) {
  // Work 8 · 16 tokens · 3 µs = 384 µs on a stage; the first 16 tokens take 16 µs to the last stage
  // and 32 µs back.
  RandomJob job = plain_job();
  job.lengths.assign(8, Tokens(16));
  expect_bound(job, 432'000);
  // On four replicas 96 µs and the ways, on three eight sequences need 3 · 16 · 3 = 144.
  job.replicas = 4;
  expect_bound(job, 144'000);
  job.replicas = 3;
  expect_bound(job, 144'000 + 48'000);
}

TEST(StepBound, CountsTheChainOfTheLongestSequence) {
  // 64 tokens, cut at multiples of 16: 64 µs on the first stage, the last 16 tokens 16 µs on the
  // other, back 128 µs and the last 16 tokens 32 µs: 240, where work gives 192 + 16 + 32.
  RandomJob job = plain_job();
  job.lengths = {Tokens(64)};
  expect_bound(job, 240'000);
  // If weight gradients, 1 µs a token, may wait, the last stage sends after 64: 176; work gives 192
  // + 16 there, and 16 + 128 + 32 until its last output.
  RandomJob split = job;
  split.cost.kinds.front().weight_gradient.per_token = 1000;
  expect_bound(split, 208'000);
  // Each of two transfers costs 5 µs.
  job.cost.transfer.latency = 5000;
  expect_bound(job, 250'000);
  // Eight tokens more, a slice of their own, with 3 µs a token in the embedding and 4 in the head:
  // 288 µs on the first stage, 8 on the other, back 432 and the first 16 tokens 32. (A stage works
  // for 504 at most, with 96 around.)
  RandomJob uneven = plain_job();
  uneven.cost.ends.embedding_forward.per_token = 3000;
  uneven.cost.ends.head_backward.per_token = 4000;
  uneven.lengths = {Tokens(72)};
  expect_bound(uneven, 760'000);
  // A pair of replicas shares the sequence: half of everything but the transfers.
  job.cost.kinds.front().merge = {{}};
  job.replicas = job.most_merged = 2;
  expect_bound(job, 130'000);
}

TEST(StepBound, CountsWhatTravelsBeyondWhatAttentionHides) {
  // In each of two layers 64 tokens take 64 + 128 µs, and 2,080 causal pairs 2 · 41.6 µs: one
  // replica needs 550.4 µs, a pair of replicas half of that and what travels.
  RandomJob job = plain_job();
  job.layout.layer_begin = {0, 2};
  job.lengths = {Tokens(64)};
  job.replicas = job.most_merged = 2;
  LayerCosts& layer = job.cost.kinds.front();
  layer.forward.per_pair = layer.backward.per_pair = 20;
  const auto travels = [&](const Travel& travel) {
    layer.merge.assign(1, {});
    layer.merge.front().forward_travel = layer.merge.front().backward_travel = travel;
  };
  // 64 keys take 12.8 µs, of which the pairs hide 10.4; queries would take longer. Twice, in two
  // layers.
  travels({300, 200, 5});
  expect_bound(job, 275'200 + 4 * 2'400);
  // All that travels is hidden.
  travels({300, 200, 7});
  expect_bound(job, 275'200);
  // With 128 µs for the keys one replica alone is quicker.
  travels({3000, 2000, 5});
  expect_bound(job, 550'400);
}

TEST(StepBound, CountsOverheadsOfTheFewestPacks) {
  // One pack each way on the stage, 7 and 9 µs, and one on the way.
  RandomJob job = plain_job();
  job.lengths = {Tokens(16)};
  job.cost.kinds.front().forward.per_pack = 7000;
  job.cost.kinds.front().backward.per_pack = 9000;
  expect_bound(job, 48'000 + 16'000 + 48'000 + 16'000);
}

TEST(StepBound, TakesTheFastestRankForWhatOneRankDoes) {
  // One sequence: on the replica that is twice as fast on both stages 240 / 2.
  RandomJob job = plain_job();
  job.lengths = {Tokens(64)};
  job.replicas = 2;
  job.speed = {{1, 1}, {2, 2}};
  expect_bound(job, 120'000);
  // Many: 3 ms of work in total at a speed of 3, and the ways of 16 tokens at 2.
  job.lengths.assign(1000, Tokens(16));
  expect_bound(job, 16'000'000 + 24'000);
}

/// Rows of 232 bytes more with kElementwise than with kFull, which computes 0.6 of the forward's
/// products again: those of q, o, gate and up, 64 + 64 + 256 of 640 weights.
RandomJob plain_job_with_rows() {
  RandomJob job = plain_job();
  Decoder shape;
  shape.kinds = {{.hidden_size = 8,
                  .num_heads = 2,
                  .num_kv_heads = 2,
                  .head_dim = 4,
                  .value_dim = 4,
                  .dense_width = 16}};
  shape.set_layers(2);
  shape.vocab_size = 10;
  job.cost.shape = shape;
  return job;
}

TEST(StepBound, LeavesOutGroupsThatCannotHoldASequence) {
  // A pair takes 500 + 5,000 ns a token forward and 1,000 + 5,000 back: 64 tokens on one stage and
  // the last or first 16 on the other are 80 · 11.5 = 920 µs, where one replica takes 240.
  RandomJob job = plain_job_with_rows();
  job.lengths = {Tokens(64)};
  job.replicas = job.most_merged = 2;
  job.cost.kinds.front().merge = {{{0, 5000}, {0, 5000}}};
  job.memory_cap = sequence_bytes(job.cost, job.layout, 0, Tokens(64));
  expect_bound(job, 240'000);
  *job.memory_cap -= Bytes(65);  // more than the byte a token that may be rounding
  expect_bound(job, 920'000);
}

TEST(StepBound, AddsWhatLayersComputeAgainToHoldTheLongestSequence) {
  // 432 µs as above. Half of the layers have to compute again, less one byte of 232 for rounding:
  // 128 tokens · 600 ns · (1/2 - 1/232) = 38.07 µs.
  RandomJob job = plain_job_with_rows();
  job.lengths.assign(8, Tokens(16));
  job.recompute = {Recompute::kElementwise, Recompute::kFull};
  const auto bytes = [&](Recompute recompute) {
    return sequence_bytes(with_recompute(static_cast<const Costs&>(job.cost), recompute),
                          job.layout, 0, Tokens(16));
  };
  EXPECT_EQ(bytes(Recompute::kElementwise) - bytes(Recompute::kFull), Bytes(16 * 232));
  job.memory_cap = bytes(Recompute::kElementwise);
  expect_bound(job, 432'000);
  *job.memory_cap -= Bytes(16 * 116);
  expect_bound(job, 470'069);
}

TEST(StepBound, EndsWithTheReductionAndTheLongestOptimizer) {
  RandomJob job = plain_job();
  job.lengths = {Tokens(64)};
  job.cost.shape.kinds[0].hidden_size = 10;
  job.cost.shape.vocab_size = 1000;
  job.cost.optimizer_per_parameter = 1;
  job.replicas = 2;
  job.cost.reduction.latency = 3000;
  // Either stage has one of the vocabulary's matrices, 10,000 parameters, and two norms of 10 in
  // its layer; the last one has a third. Half of its 10,030 parameters at 1 ns. Matrix and layer
  // are exchanged one after the other, 3 µs each, when gradients are summed and after the
  // optimizer. The first stage's are complete only when its last backward ends.
  expect_bound(job, 240'000 + 6000 + 5015 + 6000);
}

}  // namespace
}  // namespace slimpack
