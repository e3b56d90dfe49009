// The memory of ranks in virtual time, in which they run in another order than their clocks say.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/step/step_record.h"
#include "slimpack/schedule/activation_ledger.h"
#include "tests/packflow/step/watched_communicator.h"
#include "tests/packflow/support/small_runs.h"

namespace slimpack {
namespace {

using namespace std::chrono_literals;
using testing::CommunicatorCall;
using testing::packed_step;
using testing::small_shape;
using testing::SmallStep;

constexpr std::int32_t kRank = 50;

at::Tensor bytes(std::int64_t count) {
  return at::zeros({count}, at::kByte);
}

TEST(StepRecord, InputsOfVirtualTimeCountBesideThePeakOfTheActionThatRunsMeanwhile) {
  // The first action peaks at 1,000 + 400 bytes and leaves 400. The second peaks at 400 + 100, and
  // an input of 5,000 waits all the time from the first one's end. So the peak is 5,500.
  const MemoryScope charged(kRank);
  const Bytes resident = live_bytes(kRank);
  const RankClock clock(ClockKind::kVirtual, Nanos(0));
  StepRecord record(3, StageId(0), clock, RankMemory(at::kCPU, kRank), resident, 0);
  record.begin_action();
  const at::Tensor kept = bytes(400);
  static_cast<void>(bytes(1000));
  record.end_action();
  const Nanos between = clock.now();
  record.begin_action();
  static_cast<void>(bytes(100));
  record.end_action();
  record.end_actions();
  const at::Tensor no_activation = bytes(100'000);

  const Nanos never(std::numeric_limits<std::int64_t>::max());
  RankResult result;
  record.read(result, std::vector<WaitedInput>{{between, never, Bytes(5000)}});
  EXPECT_EQ(result.peak_activation, Bytes(5500));
  ASSERT_EQ(result.memory.size(), 2U);
  EXPECT_EQ(result.memory[0].bytes, Bytes(400));
  EXPECT_EQ(result.memory[1].bytes, Bytes(5400));
  EXPECT_EQ(result.memory[1].rank, 3);

  // An input that is gone before the second action adds to neither peak.
  RankResult other;
  record.read(other, std::vector<WaitedInput>{{between, between, Bytes(5000)}});
  EXPECT_EQ(other.peak_activation, Bytes(1400));
}

/// Holds rank 1 up before its first action until `inputs` lie before it, where the ranks run at the
/// same time. Rank 0 spends `kOwn` on each input before it sends it.
class LateRank final : public testing::CommunicatorWatch {
 public:
  explicit LateRank(int inputs) : inputs_(inputs) {}
  void before(const CommunicatorCall& call) override {
    if (call.rank == 0 && call.name == "send forward") spend(kOwn);
    if (call.rank != 1 || call.name != "receive forward" || processors() == 1) return;
    while (sent_ < inputs_) std::this_thread::sleep_for(10ms);
  }
  void after(const CommunicatorCall& call) override {
    if (call.rank == 0 && call.name == "send forward") ++sent_;
  }

 private:
  /// Far more than one layer of 256 tokens takes, the first time that memory is touched as well.
  static constexpr auto kOwn = 100ms;
  static void spend(std::chrono::nanoseconds time) {
    const RankClock clock(ClockKind::kVirtual, Nanos(0));
    while (clock.now() < Nanos(time.count())) {
    }
  }

  const int inputs_;
  std::atomic<int> sent_ = 0;
};

TEST(VirtualMemory, IsThatOfTheClocksAndNotOfTheOrderInWhichThreadsRun) {
  // Stage 0 takes long and runs eight forwards first. Stage 1 has one layer, and is done with a
  // MicroPack, forward and backward, before the next one comes. So by its clock inputs never
  // wait there, and its peak is that of its actions alone. Its thread is late: eight lie before it.
  constexpr std::int32_t kPacks = 8;
  SmallStep step = packed_step(small_shape(2), Dtype::kFp32, 2,
                               SequenceLengths(kPacks, Tokens(256)), Tokens(256));
  std::vector<std::vector<Action>> ranks(2);
  for (std::int32_t p = 0; p < kPacks; ++p)
    ranks[0].push_back({StageId(0), Pass::kForward, PackId(p)});
  for (std::int32_t p = 0; p < kPacks; ++p) {
    ranks[0].push_back({StageId(0), Pass::kBackward, PackId(p)});
    ranks[1].push_back({StageId(1), Pass::kForward, PackId(p)});
    ranks[1].push_back({StageId(1), Pass::kBackward, PackId(p)});
  }
  step.schedule = {ranks};

  const TaskBytes task = step.bytes();
  const RowFlow flow = row_flow(step.packs());
  ActivationLedger ledger(flow, task, 1);
  Bytes expected;
  for (const Action& action : ranks[1]) {
    expected = std::max(expected, ledger.peak_of(action));
    ledger.run(action);
  }

  LateRank late(kPacks);
  EngineOptions options = testing::engine_options(step);
  options.clock = ClockKind::kVirtual;
  options.hooks.wrap_communicator = testing::watched_by(late);
  Engine engine(options);
  Rng rng(1);
  const StepTokens tokens = testing::random_tokens(rng, step.cost.shape, step.plan.lengths);
  const ReplicaPacks replica{step.packs(), step.times(), task};
  const auto lowered = lower(std::span(&replica, 1), std::span(&step.schedule, 1));
  const Bytes peak =
      engine.run(step.plan, lowered, tokens, std::nullopt).timeline.peak_activation[1];
  const double ratio = static_cast<double>(expected.count()) / static_cast<double>(peak.count());
  EXPECT_NEAR(ratio, 1, 0.005) << expected.count() << " expected, " << peak.count() << " measured";
}

}  // namespace
}  // namespace slimpack
