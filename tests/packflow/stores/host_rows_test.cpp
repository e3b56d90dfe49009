// Rows on their way between the pretended device and host memory, and the row store that sends and
// fetches them.
#include "slimpack/packflow/stores/host_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/stores/row_store.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/support/expect_holds.h"
#include "tests/support/random_plan.h"

namespace slimpack {
namespace {

using slimpack::testing::kPretended;
using slimpack::testing::pinned_bytes;

/// `count` rows of 8 bytes from `first` on.
LayerRows rows_from(double first, std::int64_t count) {
  LayerRows rows;
  rows.x_TH = at::arange(first, first + static_cast<double>(count), at::kDouble)
                  .unsqueeze(1)
                  .to(kPretended);
  return rows;
}

LayerRows no_rows() {
  LayerRows none;
  none.x_TH = at::empty({0, 1}, at::dtype(at::kDouble).device(kPretended));
  return none;
}

RowParts parts_of(std::vector<at::Tensor> parts) {
  RowParts all;
  all.front() = std::move(parts);
  return all;
}

std::int64_t device_bytes() {
  return RankMemory(kPretended, 0).live().count();
}

class HostRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (at::hasCUDA()) GTEST_SKIP() << "pinned memory is that of the GPU's driver";
    use_own_queue(kPretended);
  }
};

TEST_F(HostRowsTest, AreGivenUpOnceTheQueueWaitsForThem) {
  const std::int64_t device = device_bytes(), host = pinned_bytes().live;
  HostRows rows(kPretended);
  const LayerRows there = rows.send(rows_from(0, 5));
  EXPECT_EQ(device_bytes() - device, 40);
  EXPECT_EQ(pinned_bytes().live - host, 40);
  EXPECT_FALSE(there.q_TND.defined());
  // Copies are put off for as long as may be, so nothing is there yet.
  EXPECT_TRUE(there.x_TH.isnan().all().item<bool>());
  rows.settle();
  EXPECT_EQ(device_bytes() - device, 0);
  EXPECT_TRUE(there.x_TH.equal(rows_from(0, 5).x_TH.cpu()));
  rows.settle();  // nothing more to wait for
}

TEST_F(HostRowsTest, ComeBackEndToEnd) {
  HostRows rows(kPretended);
  const LayerRows a = rows.send(rows_from(0, 5));
  rows.settle();
  const LayerRows b = rows.send(rows_from(100, 3));
  rows.settle();
  const std::int64_t device = device_bytes();
  rows.fetch(parts_of({b.x_TH.narrow(0, 1, 2), a.x_TH.narrow(0, 0, 4)}), no_rows());
  EXPECT_EQ(device_bytes() - device, 6 * 8);
  const LayerRows back = rows.take();
  EXPECT_EQ(back.x_TH.device(), kPretended);
  EXPECT_TRUE(back.x_TH.cpu().equal(at::cat({rows_from(101, 2).x_TH, rows_from(0, 4).x_TH}).cpu()));
  EXPECT_FALSE(back.lse_TN.defined());
}

TEST_F(HostRowsTest, GoOneLayerAtATimeEitherWay) {
  HostRows rows(kPretended);
  const LayerRows there = rows.send(rows_from(0, 5));
  EXPECT_THROW(static_cast<void>(rows.send(rows_from(0, 5))), InternalError);
  rows.settle();
  EXPECT_THROW(static_cast<void>(rows.take()), InternalError);
  rows.fetch(parts_of({there.x_TH}), no_rows());
  EXPECT_THROW(rows.fetch(parts_of({there.x_TH}), no_rows()), InternalError);
}

TEST_F(HostRowsTest, OfAStepThatEndsEarlyAreCopiedBeforeTheirMemoryIsUsedAgain) {
  const std::int64_t device = device_bytes();
  {
    HostRows rows(kPretended);
    const LayerRows there = rows.send(rows_from(0, 5));
    rows.settle();
    rows.fetch(parts_of({there.x_TH}), no_rows());
    static_cast<void>(rows.send(rows_from(7, 2)));
  }
  EXPECT_EQ(device_bytes(), device);
  // The tests here rely on this: the device minds memory that is given up too early.
  at::Tensor early = at::zeros({3}, kPretended);
  const at::Tensor there = at::empty({3}, at::TensorOptions().pinned_memory(true));
  there.copy_(early, /*non_blocking=*/true);
  early.reset();
  EXPECT_ANY_THROW(finish_queue(kPretended));
}

/// One number for each token: 1000 · sequence + position.
LayerRows tokens_of(const MicroPack& pack) {
  std::vector<at::Tensor> parts;
  for (const Slice& s : pack.slices)
    parts.push_back(at::arange(s.begin.count(), s.end.count(), at::kDouble) +
                    1000 * s.sequence.value());
  LayerRows rows;
  rows.x_TH = at::cat(parts).unsqueeze(1).to(kPretended);
  return rows;
}

TEST_F(HostRowsTest, OfARowStoreServeEveryBackwardPackAndLeaveNothing) {
  slimpack::testing::expect_holds([](std::uint64_t seed) {
    Rng rng(seed);
    const PackPlan packs = testing::random_plan(rng, 1).replicas.front().packs;
    const std::int64_t device = device_bytes(), host = pinned_bytes().live;
    constexpr std::size_t kLayers = 3;
    RowStore store(packs, kLayers, {}, {true, false, true});  // the middle one keeps its rows
    std::vector<std::int64_t> left(packs.forward.size());
    std::int64_t tokens = 0;
    for (std::size_t f = 0; f < packs.forward.size(); ++f) {
      for (std::size_t l = 0; l < kLayers; ++l)
        store.put(PackId(f), l, tokens_of(packs.forward[f]));
      store.settle();
      tokens += left[f] = packs.forward[f].tokens().count();
      RC_ASSERT(device_bytes() - device == 8 * tokens);
      RC_ASSERT(pinned_bytes().live - host == 2 * 8 * tokens);
    }
    for (std::size_t b = 0; b < packs.backward.size(); ++b)
      for (std::size_t l = kLayers; l-- > 0;) {
        if (rng.below(2) == 0) store.prefetch(PackId(b), l);
        const LayerRows rows = store.gather(PackId(b), l).joined;
        RC_ASSERT(rows.x_TH.cpu().equal(tokens_of(packs.backward[b]).x_TH.cpu()));
        store.release(PackId(b), l);
      }
    RC_ASSERT(store.empty());
    RC_ASSERT(device_bytes() == device);
    RC_ASSERT(pinned_bytes().live == host);
  });
}

TEST_F(HostRowsTest, OfARowStoreAreGatheredAsTheyAreFetched) {
  const Slice whole{SequenceId(0), Tokens(0), Tokens(4)};
  const PackPlan packs{{{{whole}}}, {{{whole}}}};
  RowStore store(packs, 2, {}, {true, true});
  for (const std::size_t layer : {0, 1}) store.put(PackId(0), layer, tokens_of({{whole}}));
  store.settle();
  store.prefetch(PackId(0), 1);
  EXPECT_THROW(store.prefetch(PackId(0), 0), InternalError);
  EXPECT_THROW(static_cast<void>(store.gather(PackId(0), 0)), InternalError);
  EXPECT_TRUE(store.gather(PackId(0), 1).joined.x_TH.cpu().equal(tokens_of({{whole}}).x_TH.cpu()));
}

}  // namespace
}  // namespace slimpack
