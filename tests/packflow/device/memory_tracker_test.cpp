#include "slimpack/packflow/device/memory_tracker.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::int32_t kRank = 51, kOther = 52;

TEST(MemoryTracker, CountsTheBytesOfARankAndTheirPeak) {
  const Bytes before = live_bytes(kRank);
  reset_peak(kRank);
  {
    const MemoryScope charged(kRank);
    const at::Tensor kept = at::zeros({100}, at::kFloat);
    static_cast<void>(at::zeros({25}, at::kDouble));
    EXPECT_EQ(live_bytes(kRank) - before, Bytes(400));
  }
  EXPECT_EQ(live_bytes(kRank), before);
  EXPECT_EQ(peak_bytes(kRank) - before, Bytes(600));
  reset_peak(kRank);
  EXPECT_EQ(peak_bytes(kRank), before);
}

TEST(MemoryTracker, ScopesNest) {
  const MemoryScope outer(kRank);
  const Bytes before = live_bytes(kRank), other = live_bytes(kOther);
  at::Tensor inside;
  {
    const MemoryScope inner(kOther);
    inside = at::zeros({10}, at::kFloat);
  }
  const at::Tensor outside = at::zeros({20}, at::kFloat);
  EXPECT_EQ(live_bytes(kOther) - other, Bytes(40));
  EXPECT_EQ(live_bytes(kRank) - before, Bytes(80));
}

TEST(MemoryTracker, MovesTheChargeOfATensorThatIsHandedOver) {
  const Bytes before = live_bytes(kRank), other = live_bytes(kOther);
  at::Tensor tensor;
  {
    const MemoryScope charged(kRank);
    tensor = at::zeros({10}, at::kFloat);
  }
  charge_to(tensor.narrow(0, 2, 3), kOther);  // the whole storage moves
  EXPECT_EQ(live_bytes(kRank), before);
  EXPECT_EQ(live_bytes(kOther) - other, Bytes(40));
  tensor = at::Tensor();
  EXPECT_EQ(live_bytes(kOther), other);
}

TEST(MemoryTracker, IgnoresTensorsWithoutMemory) {
  charge_to(at::zeros({0}, at::kFloat), kOther);
}

TEST(MemoryTracker, RefusesRanksItCannotCount) {
  EXPECT_THROW(MemoryScope{-1}, InternalError);
  EXPECT_THROW(MemoryScope{kMaxTrackedRanks}, InternalError);
}

}  // namespace
}  // namespace slimpack
