#include "slimpack/packflow/step/step_inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/packflow/step/step_outcome.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/random_run.h"
#include "tests/support/expect_holds.h"

namespace slimpack {
namespace {

using slimpack::testing::engine_options;
using slimpack::testing::kPretended;
using slimpack::testing::packed_step;
using slimpack::testing::pretended_calls_of_thread;
using slimpack::testing::random_run;
using slimpack::testing::random_tokens;
using slimpack::testing::RandomRun;
using slimpack::testing::seen_by_cpu;
using slimpack::testing::sliced_step;
using slimpack::testing::small_shape;
using slimpack::testing::SmallStep;
using slimpack::testing::ThreadCalls;

/// How many tensors the host has copied to the device, on the thread of each rank before each
/// action.
class CopiesBeforeActions {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    by_rank_[std::this_thread::get_id()].push_back(pretended_calls_of_thread().copies_there);
  }
  /// The copies before the actions that ran since the last call.
  [[nodiscard]] auto take() { return std::exchange(by_rank_, {}); }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::vector<std::int64_t>> by_rank_;
};

TEST(StepInputs, AStepCopiesToTheDeviceOnceForEachRank) {
  const SequenceLengths lengths{Tokens(70), Tokens(1), Tokens(33), Tokens(2), Tokens(9)};
  const Decoder shape = small_shape(2);
  // Bounds of joined documents; rows by tensor-parallel rank, too.
  for (const SmallStep& step : {packed_step(shape, Dtype::kBf16, 2, lengths, Tokens(72)),
                                sliced_step(shape, Dtype::kBf16, 2, lengths, 6, Tokens(8))})
    for (const std::int32_t tensor : {1, 2}) {
      EngineOptions options = engine_options(step);
      options.device = kPretended;
      options.tensor = tensor;
      CopiesBeforeActions copies;
      options.hooks.before_action = [&copies] { copies.note(); };
      Engine engine(options);
      Rng rng(11);
      const StepTokens tokens = random_tokens(rng, shape, lengths);
      const auto lowered = lower(step.plan, {&step.schedule, 1});
      const TrainConfig config;
      static_cast<void>(engine.run(step.plan, lowered, tokens, OptimizerUpdate{config, 0}));
      const auto first = copies.take();
      static_cast<void>(engine.run(step.plan, lowered, tokens, OptimizerUpdate{config, 1}));
      const auto second = copies.take();
      ASSERT_EQ(std::ssize(second), 2 * tensor);
      for (const auto& [rank, before_actions] : second) {
        EXPECT_EQ(before_actions.back(), before_actions.front());
        // Whatever the first step copied later would be one more.
        EXPECT_EQ(before_actions.front() - first.at(rank).front(), 1);
      }
    }
}

TEST(StepInputs, AreOneBlockOnTheDeviceThatTheHostDoesNotWaitFor) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random = random_run(rng);
        const RankGrid grid = random.options(Dtype::kBf16).grid();
        const at::Tensor like = at::empty({0}, at::dtype(at::kBFloat16).device(kPretended));
        for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
          const RankPlace place = grid.place(rank);
          const std::size_t replica = place.replica.index();
          InputReader reader = rank_reader(random.shape, random.plan.layout, grid, place,
                                           random.schedules[replica].exchanges, like);
          const PackPlan& packs = random.plan.replicas[replica].packs;
          const ThreadCalls before = pretended_calls_of_thread();
          StepInputs there(reader, packs, random.tokens);
          const ThreadCalls after = pretended_calls_of_thread();
          RC_ASSERT(after.copies_there - before.copies_there <= 1);
          RC_ASSERT(after.allocations - before.allocations <= 1);
          RC_ASSERT(after.waits == before.waits);
          // Without bounds of joined slices, which the CPU's kernel does not take.
          reader.like = like.cpu();
          const StepInputs here(reader, packs, random.tokens);
          for (std::size_t p = 0; p < packs.backward.size(); ++p) {
            PackInputs on_device = there.backward(PackId(static_cast<std::int32_t>(p)));
            PackInputs on_host = here.backward(PackId(static_cast<std::int32_t>(p)));
            on_device.runs.clear();
            const std::vector<at::Tensor*> copies = on_device.tensors(), given = on_host.tensors();
            RC_ASSERT(copies.size() == given.size());
            for (std::size_t t = 0; t < copies.size(); ++t)
              RC_ASSERT(seen_by_cpu(*copies[t]).equal(*given[t]));
          }
        }
      },
      0.1);
}

}  // namespace
}  // namespace slimpack
