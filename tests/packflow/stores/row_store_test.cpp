#include "slimpack/packflow/stores/row_store.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "tests/packflow/support/tensors.h"
#include "tests/support/random_plan.h"

namespace slimpack {
namespace {

constexpr std::int32_t kRank = 50;  // one that no engine of these tests uses

Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
  return {SequenceId(sequence), Tokens(begin), Tokens(end)};
}

/// One number for each token: 1000 · sequence + position.
at::Tensor tokens_of(const MicroPack& pack) {
  std::vector<at::Tensor> parts;
  for (const Slice& s : pack.slices)
    parts.push_back(at::arange(s.begin.count(), s.end.count(), at::kDouble) +
                    1000 * s.sequence.value());
  return at::cat(parts).unsqueeze(1);
}

/// Rows with only x, 8 bytes each.
LayerRows rows_of(const MicroPack& pack) {
  LayerRows rows;
  rows.x_TH = tokens_of(pack);
  return rows;
}

/// F0 = A0..3 B0..2, F1 = A4..9; B0 = A[4,10), B1 = A[2,4) B, B2 = A[0,2).
PackPlan small_plan() {
  return {{{{slice(0, 0, 4), slice(1, 0, 3)}}, {{slice(0, 4, 10)}}},
          {{{slice(0, 4, 10)}}, {{slice(0, 2, 4), slice(1, 0, 3)}}, {{slice(0, 0, 2)}}}};
}

TEST(RowStore, GivesViewsOfRowsThatLieTogether) {
  const PackPlan packs = small_plan();
  RowStore store(packs, 1);
  const LayerRows f0 = rows_of(packs.forward[0]), f1 = rows_of(packs.forward[1]);
  store.put(PackId(0), 0, f0);
  store.put(PackId(1), 0, f1);
  EXPECT_TRUE(store.gather(PackId(0), 0).joined.x_TH.is_alias_of(f1.x_TH));
  // A[2,4) and B are rows 2 to 6 of F0: two slices, one segment.
  EXPECT_TRUE(store.gather(PackId(1), 0).joined.x_TH.is_alias_of(f0.x_TH));
  EXPECT_TRUE(store.gather(PackId(1), 0).joined.x_TH.equal(tokens_of(packs.backward[1])));
}

TEST(RowStore, CopiesRowsThatLieApart) {
  const PackPlan packs{{{{slice(0, 0, 4)}}, {{slice(0, 4, 6)}}}, {{{slice(0, 0, 6)}}}};
  RowStore store(packs, 1);
  const LayerRows f0 = rows_of(packs.forward[0]), f1 = rows_of(packs.forward[1]);
  store.put(PackId(0), 0, f0);
  store.put(PackId(1), 0, f1);
  const at::Tensor gathered = store.gather(PackId(0), 0).joined.x_TH;
  EXPECT_TRUE(gathered.equal(tokens_of(packs.backward[0])));
  EXPECT_FALSE(gathered.is_alias_of(f0.x_TH));
  EXPECT_FALSE(gathered.is_alias_of(f1.x_TH));
}

TEST(RowStore, GivesPiecesOfGateAndUp) {
  const PackPlan packs{{{{slice(0, 0, 4)}}, {{slice(0, 4, 6)}}}, {{{slice(0, 0, 6)}}}};
  RowStore store(packs, 1);
  LayerRows f0, f1;
  f0.gate_up_TO = tokens_of(packs.forward[0]);
  f1.gate_up_TO = tokens_of(packs.forward[1]);
  store.put(PackId(0), 0, f0);
  store.put(PackId(1), 0, f1);
  const BackwardRows rows = store.gather(PackId(0), 0);
  ASSERT_EQ(rows.gate_up_TO.size(), 2);
  EXPECT_TRUE(rows.gate_up_TO[0].is_alias_of(f0.gate_up_TO));
  EXPECT_TRUE(rows.gate_up_TO[1].is_alias_of(f1.gate_up_TO));
  EXPECT_TRUE(joined_rows(rows.gate_up_TO).equal(tokens_of(packs.backward[0])));
}

TEST(RowStore, LeavesUndefinedWhatALayerDoesNotKeep) {
  const PackPlan packs = small_plan();
  RowStore store(packs, 1);
  store.put(PackId(1), 0, rows_of(packs.forward[1]));
  const LayerRows rows = store.gather(PackId(0), 0).joined;
  EXPECT_TRUE(rows.x_TH.defined());
  EXPECT_FALSE(rows.raw_k_TGD.defined());
}

TEST(RowStore, KeepsEveryKindOfRowApart) {
  const PackPlan packs{{{{slice(0, 0, 2)}}, {{slice(0, 2, 5)}}},
                       {{{slice(0, 1, 5)}}, {{slice(0, 0, 1)}}}};
  RowStore store(packs, 1);
  for (std::size_t f = 0; f < 2; ++f) {
    LayerRows rows;
    auto all = rows.all();
    for (std::size_t i = 0; i < all.size(); ++i)
      *all[i] = tokens_of(packs.forward[f]) + 10000.0 * static_cast<double>(i);
    store.put(PackId(f), 0, std::move(rows));
  }
  BackwardRows gathered = store.gather(PackId(0), 0);
  EXPECT_EQ(gathered.gate_up_TO.size(), 2);  // of F0 and F1
  gathered.joined.gate_up_TO = joined_rows(gathered.gate_up_TO);
  const auto all = gathered.joined.all();
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(all[i]->equal(tokens_of(packs.backward[0]) + 10000.0 * static_cast<double>(i)))
        << i;
}

TEST(RowStore, FreesAForwardPackLayerByLayerWithItsLastRow) {
  const PackPlan packs = small_plan();
  const Bytes before = live_bytes(kRank);
  RowStore store(packs, 2);
  {
    const MemoryScope charged(kRank);
    for (std::size_t layer = 0; layer < 2; ++layer)
      for (std::size_t f = 0; f < 2; ++f) store.put(PackId(f), layer, rows_of(packs.forward[f]));
  }
  const auto held = [&] { return (live_bytes(kRank) - before).count(); };
  EXPECT_EQ(held(), 2 * (7 + 6) * 8);  // 7 and 6 rows of 8 bytes in two layers
  store.release(PackId(0), 1);
  EXPECT_EQ(held(), (7 + 7 + 6) * 8);  // F1 is gone from layer 1
  store.release(PackId(1), 1);
  EXPECT_EQ(held(), (7 + 7 + 6) * 8);  // F0 still has A[0,2)
  store.release(PackId(2), 1);
  EXPECT_EQ(held(), (7 + 6) * 8);
  EXPECT_FALSE(store.empty());
  for (std::size_t b = 0; b < 3; ++b) store.release(PackId(b), 0);
  EXPECT_EQ(held(), 0);
  EXPECT_TRUE(store.empty());
}

TEST(RowStore, RefusesRowsTwiceAndRowsThatAreNotThere) {
  const PackPlan packs = small_plan();
  RowStore store(packs, 1);
  EXPECT_THROW(static_cast<void>(store.gather(PackId(0), 0)), InternalError);
  EXPECT_THROW(store.release(PackId(0), 0), InternalError);
  store.put(PackId(0), 0, rows_of(packs.forward[0]));
  EXPECT_THROW(store.put(PackId(0), 0, rows_of(packs.forward[0])), InternalError);
  store.put(PackId(1), 0, rows_of(packs.forward[1]));
  store.release(PackId(0), 0);
  EXPECT_THROW(static_cast<void>(store.gather(PackId(0), 0)), InternalError);
  EXPECT_THROW(store.release(PackId(0), 0), InternalError);
}

RC_GTEST_PROP(RowStore, EveryBackwardPackFindsItsTokensAndTheLastOneLeavesNothing,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const PackPlan packs = testing::random_plan(rng, 1).replicas.front().packs;
  const Bytes before = live_bytes(kRank);
  RowStore store(packs, 1);
  for (std::size_t f = 0; f < packs.forward.size(); ++f) {
    const MemoryScope charged(kRank);
    store.put(PackId(f), 0, rows_of(packs.forward[f]));
  }
  // Independent recount: the last backward pack that overlaps a forward pack frees it.
  std::vector<std::size_t> last(packs.forward.size());
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    for (const Slice& s : packs.backward[b].slices)
      for (std::size_t f = 0; f < packs.forward.size(); ++f)
        for (const Slice& r : packs.forward[f].slices)
          if (r.sequence == s.sequence && r.begin < s.end && s.begin < r.end) last[f] = b;
  for (std::size_t b = 0; b < packs.backward.size(); ++b) {
    RC_ASSERT(!store.empty());
    RC_ASSERT(store.gather(PackId(b), 0).joined.x_TH.equal(tokens_of(packs.backward[b])));
    store.release(PackId(b), 0);
    std::int64_t rows = 0;
    for (std::size_t f = 0; f < packs.forward.size(); ++f)
      rows += last[f] > b ? packs.forward[f].tokens().count() : 0;
    RC_ASSERT((live_bytes(kRank) - before).count() == 8 * rows);
  }
  RC_ASSERT(store.empty());
}

/// Two key/value heads of two numbers: a token takes 4 · 8 bytes in K and as many in V.
constexpr std::int64_t kTokenBytes = 2 * 4 * 8;

KvStore kv_store() {
  const LayerShape shape{.num_kv_heads = 2, .head_dim = 2, .value_dim = 2};
  return {shape, {Tokens(10), Tokens(3)}, 2};
}

at::Tensor kv_rows(const Slice& s, double first) {
  return (at::arange(s.begin.count(), s.end.count(), at::kDouble) + first)
      .view({-1, 1, 1})
      .expand({-1, 2, 2});
}

void write(KvStore& store, std::size_t layer, const Slice& s, const at::Tensor& k_TGD,
           const at::Tensor& v_TGD) {
  store.write(layer, std::span(&s, 1), k_TGD, v_TGD);
}

TEST(KvStore, KeepsWholeSequencesTogetherThatOneBackwardPackFrees) {
  const LayerShape shape{.num_kv_heads = 2, .head_dim = 2, .value_dim = 2};
  // Four of two tokens; the first backward pack has the first two, the next one the others.
  KvStore store(shape, SequenceLengths(4, Tokens(2)), 1, {},
                {PackId(0), PackId(0), PackId(1), PackId(1)});
  const std::vector<Slice> all{slice(0, 0, 2), slice(1, 0, 2), slice(2, 0, 2), slice(3, 0, 2)};
  const std::span<const Slice> slices(all);
  const at::Tensor k = kv_rows(slice(0, 0, 8), 100), v = kv_rows(slice(0, 0, 8), 200);
  store.write(0, slices, k, v);
  EXPECT_TRUE(store.upto(0, slices).k.equal(k));
  EXPECT_TRUE(store.upto(0, slices).v.equal(v));
  EXPECT_TRUE(store.upto(0, all[3]).v.equal(v.narrow(0, 6, 2)));
  // A backward pack's are views, those of both are not.
  EXPECT_TRUE(store.upto(0, slices.subspan(2)).k.is_alias_of(store.upto(0, all[2]).k));
  EXPECT_TRUE(store.upto(0, slices.subspan(2)).k.equal(k.narrow(0, 4, 4)));
  EXPECT_FALSE(store.upto(0, slices.first(3)).k.is_alias_of(store.upto(0, all[0]).k));
  EXPECT_TRUE(store.upto(0, slices.first(3)).k.equal(k.narrow(0, 0, 6)));
  // In another order they do not lie end to end.
  const std::vector<Slice> turned{all[1], all[0]};
  EXPECT_TRUE(store.upto(0, turned).k.equal(at::cat({k.narrow(0, 2, 2), k.narrow(0, 0, 2)})));
  for (const Slice& s : all) store.release(0, s);
  EXPECT_TRUE(store.empty());
}

TEST(KvStore, TakesOverKeysThatLieAsItKeepsThem) {
  const LayerShape shape{.num_kv_heads = 2, .head_dim = 2, .value_dim = 2};
  KvStore store(shape, {Tokens(3)}, 1, {}, {PackId(0)});
  const at::Tensor rows = kv_rows(slice(0, 0, 3), 1), k = KvStore::room(rows).copy_(rows);
  write(store, 0, slice(0, 0, 3), k, rows);
  EXPECT_TRUE(store.upto(0, slice(0, 0, 3)).k.is_alias_of(k));
  EXPECT_TRUE(store.upto(0, slice(0, 0, 3)).v.equal(rows));
}

TEST(KvStore, ShowsASliceTheTokensUpToItsEnd) {
  KvStore store = kv_store();
  write(store, 0, slice(0, 0, 4), kv_rows(slice(0, 0, 4), 100), kv_rows(slice(0, 0, 4), 200));
  write(store, 0, slice(0, 4, 10), kv_rows(slice(0, 4, 10), 100), kv_rows(slice(0, 4, 10), 200));
  const KeysValues seen = store.upto(0, slice(0, 3, 7));
  EXPECT_TRUE(seen.k.equal(kv_rows(slice(0, 0, 7), 100)));
  EXPECT_TRUE(seen.v.equal(kv_rows(slice(0, 0, 7), 200)));
  EXPECT_TRUE(seen.k.is_alias_of(store.upto(0, slice(0, 0, 10)).k));
}

TEST(KvStore, HoldsASequenceFromItsFirstForwardToItsFirstTokensBackward) {
  const Bytes before = live_bytes(kRank);
  const auto held = [&] { return (live_bytes(kRank) - before).count(); };
  KvStore store = kv_store();
  const at::Tensor rows = kv_rows(slice(0, 0, 10), 0);
  const MemoryScope charged(kRank);
  EXPECT_EQ(held(), 0);
  write(store, 1, slice(0, 0, 4), rows.narrow(0, 0, 4), rows.narrow(0, 0, 4));
  EXPECT_EQ(held(), 10 * kTokenBytes);  // at full length from the start
  write(store, 1, slice(0, 4, 10), rows.narrow(0, 4, 6), rows.narrow(0, 4, 6));
  EXPECT_EQ(held(), 10 * kTokenBytes);

  EXPECT_TRUE(store.gradient(1, slice(0, 6, 10)).k.eq(0).all().item<bool>());
  EXPECT_EQ(held(), 20 * kTokenBytes);
  store.release(1, slice(0, 6, 10));
  EXPECT_EQ(held(), 20 * kTokenBytes);
  EXPECT_FALSE(store.empty());
  static_cast<void>(store.gradient(1, slice(0, 0, 6)));
  store.release(1, slice(0, 0, 6));
  EXPECT_EQ(held(), 0);
  EXPECT_TRUE(store.empty());
}

TEST(KvStore, WithoutBackwardHoldsASequenceToItsLastSliceForward) {
  const Bytes before = live_bytes(kRank);
  const auto held = [&] { return (live_bytes(kRank) - before).count(); };
  KvStore store = kv_store();
  const at::Tensor rows = kv_rows(slice(0, 0, 10), 0);
  const MemoryScope charged(kRank);
  for (const std::size_t layer : {0, 1})
    write(store, layer, slice(0, 0, 4), rows.narrow(0, 0, 4), rows.narrow(0, 0, 4));
  store.release_forward(0, slice(0, 0, 4));
  EXPECT_EQ(held(), 2 * 10 * kTokenBytes);
  write(store, 0, slice(0, 4, 10), rows.narrow(0, 4, 6), rows.narrow(0, 4, 6));
  store.release_forward(0, slice(0, 4, 10));
  EXPECT_EQ(held(), 10 * kTokenBytes);  // of the other layer
  EXPECT_FALSE(store.empty());
}

TEST(KvStore, KeepsNoGradientsForASliceThatIsItsWholeSequence) {
  KvStore store = kv_store();
  write(store, 0, slice(1, 0, 3), kv_rows(slice(1, 0, 3), 0), kv_rows(slice(1, 0, 3), 0));
  EXPECT_FALSE(store.gradient(0, slice(1, 0, 3)).k.defined());
}

TEST(KvStore, CarriesGradientsFromLaterSlicesToEarlierOnes) {
  KvStore store = kv_store();
  const at::Tensor rows = kv_rows(slice(0, 0, 10), 0);
  write(store, 0, slice(0, 0, 10), rows, rows);
  store.gradient(0, slice(0, 5, 10)).k[4].fill_(3);
  store.release(0, slice(0, 5, 10));
  EXPECT_EQ(store.gradient(0, slice(0, 2, 5)).k[4][0][0].item<double>(), 3);
}

TEST(KvStore, AccumulatesBf16GradientsInFp32) {
  KvStore store = kv_store();
  const at::Tensor rows = kv_rows(slice(0, 0, 10), 0).to(at::kBFloat16);
  write(store, 0, slice(0, 0, 10), rows, rows);
  EXPECT_EQ(store.upto(0, slice(0, 0, 10)).k.scalar_type(), at::kBFloat16);
  EXPECT_EQ(store.gradient(0, slice(0, 5, 10)).k.scalar_type(), at::kFloat);
}

TEST(KvStore, RefusesSlicesOutOfOrder) {
  KvStore store = kv_store();
  const at::Tensor rows = kv_rows(slice(0, 0, 10), 0);
  EXPECT_THROW(write(store, 0, slice(0, 4, 10), rows.narrow(0, 4, 6), rows.narrow(0, 4, 6)),
               InternalError);
  EXPECT_THROW(static_cast<void>(store.upto(0, slice(0, 0, 4))), InternalError);
  EXPECT_THROW(static_cast<void>(store.gradient(0, slice(0, 4, 10))), InternalError);
  write(store, 0, slice(0, 0, 10), rows, rows);
  EXPECT_THROW(static_cast<void>(store.gradient(0, slice(0, 2, 5))), InternalError);
}

}  // namespace
}  // namespace slimpack
