// Device-neutral tensors: without a GPU, on libtorch's meta device, which refuses to mix its
// tensors with those of a CPU; with one, the numbers too.
#include "slimpack/packflow/device/device.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/packflow/step/step_outcome.h"
#include "tests/packflow/support/mail_processes.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/random_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/expect_holds.h"
#include "tests/support/sample.h"
#include "tests/support/token_bytes.h"

namespace slimpack {
namespace {

using testing::row_bytes;

using slimpack::testing::engine_options;
using slimpack::testing::expect_same;
using slimpack::testing::kPretended;
using slimpack::testing::MailJob;
using slimpack::testing::packed_step;
using slimpack::testing::pretended_calls;
using slimpack::testing::pretended_calls_of_thread;
using slimpack::testing::PretendedCalls;
using slimpack::testing::random_run;
using slimpack::testing::random_tokens;
using slimpack::testing::RandomRun;
using slimpack::testing::run_once;
using slimpack::testing::same_gradients;
using slimpack::testing::sliced_step;
using slimpack::testing::small_shape;
using slimpack::testing::SmallStep;
using slimpack::testing::StepOutcome;

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kWaitsOfAStep = 8;  // of two ranks

const SequenceLengths& lengths() {
  static const SequenceLengths all{Tokens(70), Tokens(1), Tokens(33), Tokens(2), Tokens(9)};
  return all;
}

TEST(Device, AStepOfAnyGridKeepsToTheDeviceOfItsEngine) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        const RandomRun random = [&] {
          Rng rng(seed);
          RandomRun run = random_run(rng);
          run.shape.kinds[0].window = static_cast<std::int64_t>(rng.below(2) * rng.below(30));
          return run;
        }();
        const StepOutcome cpu = run_once(random),
                          there = run_once(random, Dtype::kFp64, kPretended);
        RC_ASSERT(same_gradients(there.gradients, cpu.gradients, 1e-12));
        RC_ASSERT(std::abs(there.result.loss - cpu.result.loss) <= 1e-12 * cpu.result.loss);
      },
      0.15);
}

class EveryRecomputation : public ::testing::TestWithParam<Recompute> {};

TEST_P(EveryRecomputation, AStepKeepsToTheDeviceOfItsEngine) {
  for (const std::int32_t pp : {1, 2}) {
    const SmallStep step = sliced_step(small_shape(kLayers, true), Dtype::kFp64, pp, lengths(), 6,
                                       Tokens(8), RecomputeByLayer(kLayers, GetParam()));
    SmallStep on_cpu = step;  // whose rows are in host memory in any case
    std::ranges::replace(on_cpu.plan.recompute, Recompute::kOffload, Recompute::kElementwise);
    expect_same(run_once(on_cpu), run_once(step, kPretended), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, EveryRecomputation, ::testing::ValuesIn(all_recomputations()),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(Device, ThePretendedOneRefusesTensorsOfTheCpu) {
  // The tests here rely on these errors.
  const at::Tensor there = at::ones({2, 2}, kPretended), here = at::ones({2, 2});
  EXPECT_ANY_THROW(static_cast<void>(at::mul(there, here)));
  EXPECT_ANY_THROW(static_cast<void>(at::mm(there, here)));
  EXPECT_ANY_THROW(static_cast<void>(at::index_select(there, 0, at::zeros({1}, at::kLong))));
  EXPECT_ANY_THROW(static_cast<void>(at::cat({there, here})));
  EXPECT_TRUE(at::add(there, there).cpu().equal(here + here));
}

std::int64_t actions_of(const Timeline& timeline) {
  return std::ranges::count_if(timeline.spans, [](const Span& span) {
    return span.kind == SpanKind::kForward || span.kind == SpanKind::kBackward;
  });
}

/// How often each rank's thread asks for an event from one action to the next.
class AskedBetweenActions {
 public:
  /// Is called before an action, on its rank's thread.
  void note() {
    const std::lock_guard lock(mutex_);
    by_rank_[std::this_thread::get_id()].push_back(pretended_calls_of_thread().asked);
  }
  [[nodiscard]] std::ptrdiff_t ranks() const { return std::ssize(by_rank_); }
  /// The fewest questions before an action. A rank's first action does not count: it has none
  /// before it.
  [[nodiscard]] std::int64_t least() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, asked] : by_rank_)
      for (std::size_t action = 2; action < asked.size(); ++action)
        least = std::min(least, asked[action] - asked[action - 1]);
    return least;
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::vector<std::int64_t>> by_rank_;
};

TEST(Device, RanksHaveQueuesOfTheirOwnAndRunAheadOfThemByOneAction) {
  const SmallStep step =
      sliced_step(small_shape(kLayers), Dtype::kFp32, 2, lengths(), 6, Tokens(8));
  EngineOptions options = engine_options(step);
  options.device = kPretended;
  AskedBetweenActions asked;
  options.hooks.before_action = [&asked] { asked.note(); };
  const std::int64_t queues = pretended_calls().queues;
  Engine engine(options);
  EXPECT_EQ(pretended_calls().queues - queues, 2);
  Rng rng(11);
  const StepTokens tokens = random_tokens(rng, step.cost.shape, lengths());
  const PretendedCalls before = pretended_calls();
  const Timeline timeline =
      engine.run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens, std::nullopt).timeline;
  const PretendedCalls after = pretended_calls();
  // Between two actions a rank asks once for the action before. It waits unless the other rank's
  // wait has shown already that the device got there.
  EXPECT_EQ(asked.ranks(), 2);
  EXPECT_EQ(asked.least(), 1);
  EXPECT_LE(after.synchronized - before.synchronized, actions_of(timeline) + kWaitsOfAStep);
  // Each MicroPack and pass receives one tensor from the other stage.
  const auto& packs = step.packs();
  EXPECT_GE(after.kept - before.kept, std::ssize(packs.forward) + std::ssize(packs.backward));
}

/// A step of two stages and two tensor-parallel ranks each.
StepOutcome run_on_processes(MailJob& job, const SmallStep& step, std::int64_t& most_waits) {
  std::mutex mutex;
  StepOutcome outcome;
  most_waits = 0;
  std::vector<std::jthread> processes;
  for (std::int32_t rank = 0; rank < job.grid().ranks(); ++rank)
    processes.emplace_back([&, rank] {
      EngineOptions options = engine_options(step);
      options.tensor = 2;
      options.device = kPretended;
      options.process = &job.process(rank);
      std::vector<std::int64_t> waits;
      options.hooks.before_action = [&] { waits.push_back(pretended_calls_of_thread().waits); };
      Engine engine(options);
      Rng rng(11);
      const StepTokens tokens = random_tokens(rng, step.cost.shape, step.plan.lengths);
      StepResult result =
          engine.run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens, std::nullopt);
      static_cast<void>(options.process->make_world());  // as between two steps
      const std::lock_guard lock(mutex);
      for (std::size_t action = 1; action < waits.size(); ++action)
        most_waits = std::max(most_waits, waits[action] - waits[action - 1]);
      if (rank == 0) outcome.result = std::move(result);
    });
  processes.clear();
  return outcome;
}

TEST(Device, ProcessesWaitAtMostOnceForAnActionAndHaveTheBitsOfThreads) {
  const SmallStep step =
      sliced_step(small_shape(kLayers), Dtype::kFp32, 2, lengths(), 6, Tokens(8));
  std::int64_t most_waits = 0;
  MailJob job({.pipeline = 2, .tensor = 2});
  const StepOutcome processes = run_on_processes(job, step, most_waits);
  EXPECT_EQ(most_waits, 1);
  EngineOptions options = engine_options(step);
  options.tensor = 2;
  options.device = kPretended;
  const StepOutcome threads = run_once(step, options);
  EXPECT_EQ(processes.result.loss, threads.result.loss);
  EXPECT_EQ(processes.result.gradient_norm, threads.result.gradient_norm);
  EXPECT_EQ(actions_of(processes.result.timeline), actions_of(threads.result.timeline));
  for (const Span& span : processes.result.timeline.spans) EXPECT_LE(span.start, span.end);
}

TEST(Device, ProcessesAwaitWhatTheyHaveSentOnTheThreadThatSentIt) {
  // Memory that comes back on another thread would not wait for the rank's queue.
  const SmallStep step =
      sliced_step(small_shape(kLayers), Dtype::kFp32, 2, lengths(), 6, Tokens(8));
  MailJob job({.pipeline = 2, .tensor = 2});
  std::int64_t most_waits = 0;
  static_cast<void>(run_on_processes(job, step, most_waits));
  EXPECT_EQ(job.foreign_waits(), 0);
}

/// How many products of matrices all threads make while it lives.
class CountedProducts {
 public:
  CountedProducts()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& call)
                                           -> std::unique_ptr<at::ObserverContext> {
              const std::string_view name = call.name();
              if (name == "aten::mm" || name == "aten::addmm" || name == "aten::linear") ++count();
              return nullptr;
            }).scopes({at::RecordScope::FUNCTION}))) {
    count() = 0;
  }
  ~CountedProducts() { at::removeCallback(handle_); }
  CountedProducts(const CountedProducts&) = delete;
  CountedProducts& operator=(const CountedProducts&) = delete;

  static std::atomic<int>& count() {
    static std::atomic<int> products = 0;
    return products;
  }

 private:
  at::CallbackHandle handle_;
};

TEST(Device, AnEngineThereUsesItsKernelsBeforeTheFirstStepAndNothingIsLeftOfIt) {
  for (const std::int32_t tensor : {1, 2}) {
    const SmallStep step =
        sliced_step(small_shape(kLayers, true), Dtype::kFp64, 2, lengths(), 6, Tokens(8));
    EngineOptions options = engine_options(step);
    options.tensor = tensor;
    const at::Tensor next = [] {
      at::manual_seed(3);
      return at::rand({4});
    }();
    at::manual_seed(3);
    const CountedProducts products;
    Engine cpu(options);
    EXPECT_EQ(CountedProducts::count(), 0);
    options.device = kPretended;
    Engine there(options);
    // Forward and backward of a layer on each of its ranks: four products each, at least.
    EXPECT_GE(CountedProducts::count(), 2 * 4 * kLayers * tensor);
    EXPECT_TRUE(at::rand({4}).equal(next));
    for (std::int32_t rank = 0; rank < 2 * tensor; ++rank)
      for (std::size_t b = 0; b < cpu.parameters(rank).front().buckets.size(); ++b) {
        const ParameterBucket& here = cpu.parameters(rank).front().buckets[b];
        const ParameterBucket& warm = there.parameters(rank).front().buckets[b];
        EXPECT_TRUE(warm.values_N.cpu().equal(here.values_N));
        EXPECT_EQ(warm.gradients_N.cpu().count_nonzero().item<std::int64_t>(), 0);
      }
  }
}

TEST(Device, MemoryIsThatOfTheDevice) {
  // After every action the same tensors are alive as on the CPU, whichever kernel has run.
  const SmallStep step =
      sliced_step(small_shape(kLayers, true), Dtype::kBf16, 1, lengths(), 6, Tokens(8));
  const auto live = [](const StepOutcome& out) {
    std::vector<std::int64_t> bytes;
    for (const MemorySample& sample : out.result.timeline.memory)
      bytes.push_back(sample.bytes.count());
    return bytes;
  };
  const StepOutcome there = run_once(step, kPretended);
  EXPECT_EQ(live(there), live(run_once(step)));
  EXPECT_GE(there.result.timeline.peak_activation.front().count(), std::ranges::max(live(there)));
}

double relative_error(const at::Tensor& value, const at::Tensor& exact) {
  return ((value - exact).norm() / exact.norm()).item<double>();
}

/// Whether every gradient is about as near to fp32's as the CPU's.
::testing::AssertionResult are_as_near(const StepOutcome& there, const StepOutcome& cpu,
                                       const StepOutcome& exact, double factor = 1.5) {
  for (const auto& [name, gradient] : exact.gradients) {
    const double error = relative_error(there.gradients.at(name), gradient);
    const double bound = factor * relative_error(cpu.gradients.at(name), gradient) + 1e-3;
    if (error >= bound)
      return ::testing::AssertionFailure() << name << " is off by " << error << " >= " << bound;
  }
  return ::testing::AssertionSuccess();
}

TEST(Device, AGpusKernelsGiveGradientsAsNearToFp32AsThoseOfTheCpu) {
  // Our own kernels take heads of 16, libtorch's operators those of 8. Slices share calls there,
  // whole documents tensors, too.
  for (const auto& [head_dim, window] : {std::pair{8, 0}, {16, 0}, {16, 6}, {8, 50}}) {
    const auto steps = [&, head_dim = head_dim, window = window](Dtype dtype) {
      Decoder shape = small_shape(kLayers, true);
      shape.kinds[0].head_dim = shape.kinds[0].value_dim = head_dim;
      shape.kinds[0].window = window;
      return std::array{packed_step(shape, dtype, 1, lengths(), Tokens(115),
                                    {Recompute::kNothing, Recompute::kFull}),
                        packed_step(shape, dtype, 2, lengths(), Tokens(72)),
                        sliced_step(shape, dtype, 1, lengths(), 4, Tokens(8),
                                    {Recompute::kAttention, Recompute::kNothing})};
    };
    const auto exact = steps(Dtype::kFp32), rounded = steps(Dtype::kBf16);
    for (std::size_t s = 0; s < exact.size(); ++s)
      EXPECT_TRUE(
          are_as_near(run_once(rounded[s], kPretended), run_once(rounded[s]), run_once(exact[s])))
          << "heads of " << head_dim << ", window " << window << ", step " << s;
  }
}

TEST(Device, OurKernelsGiveTheGradientsOfAnyGrid) {
  testing::Sample sample;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    if (!sample.next()) continue;
    Rng rng(seed);
    RandomRun random = random_run(rng);
    random.shape.kinds[0].head_dim = random.shape.kinds[0].value_dim = 16;
    // Sums of few values differ more by chance.
    EXPECT_TRUE(are_as_near(run_once(random, Dtype::kBf16, kPretended),
                            run_once(random, Dtype::kBf16), run_once(random, Dtype::kFp32), 3))
        << "seed " << seed;
  }
}

TEST(Device, TrainingThereTakesTheSameSteps) {
  const SmallStep step =
      sliced_step(small_shape(kLayers), Dtype::kBf16, 2, lengths(), 4, Tokens(8));
  TrainConfig config;
  config.warmup_steps = 0;
  const auto losses = [&](at::Device device) {
    EngineOptions options = engine_options(step);
    options.device = device;
    Engine engine(options);
    Rng rng(11);
    const StepTokens tokens = random_tokens(rng, step.cost.shape, lengths());
    std::vector<double> result;
    for (std::int64_t s = 0; s < 4; ++s)
      result.push_back(engine
                           .run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens,
                                OptimizerUpdate{config, s})
                           .loss);
    return result;
  };
  const std::vector<double> cpu = losses(at::kCPU), there = losses(kPretended);
  for (std::size_t s = 0; s < cpu.size(); ++s)
    EXPECT_NEAR(there[s], cpu[s], 2e-3 * cpu[s]) << s;  // attention rounds elsewhere: bf16
  EXPECT_LT(there.back(), there.front());
}

TEST(Device, AnEngineSaysWhichAttentionKernelItsRanksTake) {
  // The test runs a second time with the stand-in for FlashAttention-4's library.
  const bool four = std::getenv("SLIMPACK_FA4") != nullptr;
  const auto kernel_of = [](Dtype dtype, at::Device device) {
    EngineOptions options =
        engine_options(packed_step(small_shape(kLayers), dtype, 1, lengths(), Tokens(115)));
    options.device = device;
    return Engine(options).attention_kernel();
  };
  const KernelChoice bf16 = kernel_of(Dtype::kBf16, kPretended);
  EXPECT_EQ(bf16.flash_release, four ? 4 : 2);
  EXPECT_EQ(bf16.text, four ? "FlashAttention-4" : "FlashAttention-2");
  const KernelChoice fp32 = kernel_of(Dtype::kFp32, kPretended);
  EXPECT_EQ(fp32.flash_release, 0);
  EXPECT_EQ(fp32.text, four ? "matrix products, not FlashAttention-4: it takes bf16 alone"
                            : "matrix products");
  EXPECT_EQ(kernel_of(Dtype::kBf16, at::kCPU).flash_release, 0);
}

/// The CUDA device, or none.
std::optional<at::Device> cuda() {
  try {
    return find_device(DeviceKind::kCuda);
  } catch (const InvalidInput& e) {
    EXPECT_NE(std::string(e.what()).find("train.device is cuda"), std::string::npos) << e.what();
    return std::nullopt;
  }
}

class OnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device_) GTEST_SKIP() << "no CUDA device";
  }
  std::optional<at::Device> device_ = cuda();
};

TEST_F(OnCuda, Fp64GradientsAreThoseOfTheCpu) {
  for (const std::int32_t pp : {1, 2}) {
    const SmallStep step =
        sliced_step(small_shape(kLayers, true), Dtype::kFp64, pp, lengths(), 6, Tokens(8));
    expect_same(run_once(step), run_once(step, *device_), 1e-9);
  }
}

TEST_F(OnCuda, Bf16GradientsAreAsNearToFp32AsThoseOfTheCpu) {
  for (const bool qk_norm : {false, true}) {
    const auto step = [&](Dtype dtype) {
      Decoder shape = small_shape(kLayers, qk_norm);
      shape.kinds[0].head_dim = shape.kinds[0].value_dim = 16;  // our own kernels take these
      return sliced_step(shape, dtype, 1, lengths(), 6, Tokens(8));
    };
    EXPECT_TRUE(are_as_near(run_once(step(Dtype::kBf16), *device_), run_once(step(Dtype::kBf16)),
                            run_once(step(Dtype::kFp32))))
        << "q/k norms: " << qk_norm;
  }
}

TEST_F(OnCuda, TheSamePlanAndSeedGiveTheSameBits) {
  const SmallStep step =
      sliced_step(small_shape(kLayers), Dtype::kBf16, 2, lengths(), 6, Tokens(8));
  expect_same(run_once(step, *device_), run_once(step, *device_), 0.0);
}

TEST_F(OnCuda, RowsThatAreOffloadedGiveTheSameBitsInLessMemory) {
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kBf16}) {
    const auto step = [&](Recompute recompute) {
      return sliced_step(small_shape(8), dtype, 1, lengths(), 6, Tokens(8),
                         RecomputeByLayer(8, recompute));
    };
    const StepOutcome kept = run_once(step(Recompute::kElementwise), *device_);
    const StepOutcome offloaded = run_once(step(Recompute::kOffload), *device_);
    expect_same(kept, offloaded, 0.0);
    EXPECT_LT(offloaded.result.timeline.peak_activation.front(),
              kept.result.timeline.peak_activation.front());
  }
}

TEST_F(OnCuda, TheMemoryOfAStepIsMeasuredThere) {
  const SmallStep step = packed_step(small_shape(kLayers), Dtype::kBf16, 1, lengths(), Tokens(115));
  const Timeline timeline = run_once(step, *device_).result.timeline;
  // At least the rows of the longest document, which all layers keep.
  EXPECT_GT(
      timeline.peak_activation.front().count(),
      70 * kLayers * row_bytes(step.cost.shape, Dtype::kBf16, Recompute::kElementwise).count());
}

}  // namespace
}  // namespace slimpack
