// Memory of stages whose layers compute different things again.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"
#include "tests/support/random_plan.h"
#include "tests/support/token_bytes.h"

namespace slimpack {
namespace {

using testing::kv_bytes;
using testing::row_bytes;

RecomputeByLayer random_policies(Rng& rng, std::int32_t layers) {
  RecomputeByLayer recompute;
  for (std::int32_t l = 0; l < layers; ++l)
    recompute.push_back(all_recomputations()[rng.below(kRecomputations)]);
  return recompute;
}

/// A stage in the middle of a pipeline recounted from stages of one layer each.
class LayerByLayer {
 public:
  LayerByLayer(const Costs& plain, const RecomputeByLayer& policies, const StepPlan& plan)
      : plan_(plan),
        packs_(plan.replicas.front().packs),
        row_(row_bytes(plain.shape, plain.dtype)) {
    offloads_before_ = {false};
    for (const Recompute recompute : policies) {
      offloads_before_.push_back(recompute == Recompute::kOffload);
      Costs cost = plain;
      cost.shape.set_layers(3);
      layers_.push_back(
          task_bytes(with_recompute(cost, recompute), {{0, 1, 2, 3}}, packs_, plan.lengths));
    }
  }

  /// Highest in any layer, beyond all rows, keys and values of the action.
  [[nodiscard]] Bytes forward(std::size_t pack) const {
    Bytes held, highest;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const TaskBytes& layer = layers_[l];
      held += layer.rows[1][pack];
      for (const Slice& slice : packs_.forward[pack].slices)
        if (slice.begin == Tokens(0)) held += layer.kv[1][slice.sequence.index()];
      highest = std::max(
          highest, held + layer.forward_transient[1][pack] + on_their_way(l, packs_.forward[pack]));
    }
    return highest - held;
  }

  /// Highest in any layer, the last one first, beyond what was there before.
  [[nodiscard]] Bytes backward(std::size_t pack) const {
    Bytes held, highest;
    for (std::size_t l = layers_.size(); l-- > 0;) {
      const TaskBytes* const layer = &layers_[l];
      highest = std::max(highest, held + layer->backward_transient[1][pack] +
                                      on_their_way(l, packs_.backward[pack]));
      for (const Slice& slice : packs_.backward[pack].slices) {
        const std::size_t q = slice.sequence.index();
        const bool last = slice.end == plan_.lengths[q];
        const bool first = slice.begin == Tokens(0);
        if (last && !first) held += layer->dkv[1][q];
        if (first && !last) held -= layer->dkv[1][q];
        if (first) held -= layer->kv[1][q];
      }
      for (std::size_t f = 0; f < packs_.forward.size(); ++f)
        if (last_use(packs_.forward[f]) == pack) held -= layer->rows[1][f];
    }
    return highest;
  }

 private:
  /// Rows of the layer before, which leave or come while this one runs.
  [[nodiscard]] Bytes on_their_way(std::size_t layer, const MicroPack& pack) const {
    return offloads_before_[layer] ? row_ * pack.tokens().count() : Bytes(0);
  }
  [[nodiscard]] std::size_t last_use(const MicroPack& forward) const {
    std::size_t last = 0;
    for (std::size_t b = 0; b < packs_.backward.size(); ++b)
      for (const Slice& s : packs_.backward[b].slices)
        for (const Slice& r : forward.slices)
          if (r.sequence == s.sequence && r.begin < s.end && s.begin < r.end) last = b;
    return last;
  }

  const StepPlan& plan_;
  const PackPlan& packs_;
  Bytes row_;
  std::vector<bool> offloads_before_;  ///< by layer: whether the one before it does
  std::vector<TaskBytes> layers_;
};

RC_GTEST_PROP(LayerMemory, AStageIsItsLayersOneAfterTheOther, (std::uint64_t seed)) {
  Rng rng(seed);
  StepPlan plan = testing::random_plan(rng, 3);
  const auto middle = static_cast<std::int32_t>(1 + rng.below(7));
  plan.layout = {{0, 1, 1 + middle, 2 + middle}};
  Costs cost;
  cost.shape = testing::small_gqa();
  cost.shape.set_layers(plan.layout.layer_begin.back());
  if (rng.below(2) == 1) cost.shape.kinds[0].qk_norm = QkNorm::kNone;
  cost.dtype = rng.below(2) == 0 ? Dtype::kFp32 : Dtype::kBf16;
  const RecomputeByLayer policies = random_policies(rng, middle);
  const LayerByLayer expected(cost, policies, plan);

  cost.shape.set_layers(2 + middle);
  RecomputeByLayer all(1, Recompute::kMlp);
  all.insert(all.end(), policies.begin(), policies.end());
  all.push_back(Recompute::kFull);
  const PackPlan& packs = plan.replicas.front().packs;
  const TaskBytes bytes = task_bytes(with_recompute(cost, all), plan.layout, packs, plan.lengths);
  for (std::size_t f = 0; f < packs.forward.size(); ++f) {
    std::int64_t token = 0;
    for (const Recompute recompute : policies)
      token += row_bytes(cost.shape, cost.dtype, recompute).count();
    RC_ASSERT(bytes.rows[1][f] == Bytes(packs.forward[f].tokens().count() * token));
    RC_ASSERT(bytes.forward_transient[1][f] == expected.forward(f));
  }
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    RC_ASSERT(bytes.backward_transient[1][b] == expected.backward(b));
}

TEST(LayerMemory, RowsAreThoseOfEachPolicy) {
  // fp32: hidden 32, q 32, k 16, FFN 64, log-sum-exp 8, 1 / rms 4 bytes of a token.
  Decoder shape = testing::row_store_example();
  const auto row = [&](Recompute recompute) {
    return row_bytes(shape, Dtype::kFp32, recompute).count();
  };
  // Normalised x and middle with 1 / rms; q, out, log-sum-exp; gate and up; their product.
  EXPECT_EQ(row(Recompute::kNothing), 2 * (32 + 4) + 2 * 32 + 8 + 128 + 64);
  EXPECT_EQ(row(Recompute::kElementwise), 2 * 32 + 2 * 32 + 8 + 128);
  EXPECT_EQ(row(Recompute::kAttention), 2 * 32 + 128);
  EXPECT_EQ(row(Recompute::kMlp), 2 * 32 + 2 * 32 + 8);
  EXPECT_EQ(row(Recompute::kFull), 32);
  EXPECT_EQ(row(Recompute::kOffload), 0);
  shape.kinds[0].qk_norm = QkNorm::kPerHead;
  // Normalised q and k with 1 / rms of each of three heads, beside q as attention saw it.
  EXPECT_EQ(row(Recompute::kNothing), 336 + 32 + 16 + 3 * 4);
  EXPECT_EQ(row(Recompute::kElementwise), 264 + 16);
  EXPECT_EQ(row(Recompute::kAttention), 192);
  EXPECT_EQ(row(Recompute::kMlp), 136 + 16);
  EXPECT_EQ(row(Recompute::kFull), 32);
}

TEST(LayerMemory, OfASequenceIsItsRowsWithItsKeysAndValues) {
  Costs plain;
  plain.shape = testing::small_gqa();
  const RecomputingCosts cost =
      with_recompute(plain, {Recompute::kFull, Recompute::kMlp, Recompute::kElementwise});
  const StageLayout layout{{0, 1, 3}};
  const auto token = [&](Recompute recompute) {
    return row_bytes(cost.shape, cost.dtype, recompute) + kv_bytes(cost.shape, cost.dtype);
  };
  EXPECT_EQ(sequence_bytes(cost, layout, 0, Tokens(7)), token(Recompute::kFull) * 7);
  EXPECT_EQ(sequence_bytes(cost, layout, 1, Tokens(7)),
            (token(Recompute::kMlp) + token(Recompute::kElementwise)) * 7);
}

TEST(LayerMemory, OfRowsInHostMemoryIsThatOfOneLayerThatRunsAndOneOnItsWay) {
  // The example of docs/row-store.md: rows of 264 bytes in each of two layers on one stage, F0 =
  // [0, 6), F1 = [6, 10), B0 = [5, 10), B1 = [0, 5). A token of the head's input takes 32.
  Costs cost;
  cost.shape = testing::row_store_example();
  const auto slice = [](std::int64_t begin, std::int64_t end) {
    return MicroPack{{{SequenceId(0), Tokens(begin), Tokens(end)}}};
  };
  const PackPlan packs{{slice(0, 6), slice(6, 10)}, {slice(5, 10), slice(0, 5)}};
  const auto bytes = [&](RecomputeByLayer recompute) {
    return task_bytes(with_recompute(cost, std::move(recompute)), {{0, 2}}, packs, {Tokens(10)});
  };
  using R = Recompute;
  using List = std::vector<Bytes>;
  const TaskBytes kept = bytes({R::kElementwise, R::kElementwise});
  const TaskBytes first = bytes({R::kOffload, R::kElementwise});
  const TaskBytes both = bytes({R::kOffload, R::kOffload});
  EXPECT_EQ(kept.rows[0], (List{Bytes(6 * 560), Bytes(4 * 560)}));
  EXPECT_EQ(first.rows[0], (List{Bytes(6 * 296), Bytes(4 * 296)}));
  EXPECT_EQ(both.rows[0], (List{Bytes(6 * 32), Bytes(4 * 32)}));
  // Forward the last layer has the highest moment; until it ends, the first one's rows leave.
  EXPECT_EQ(kept.forward_transient[0], (List{Bytes(6 * 64), Bytes(4 * 64)}));
  EXPECT_EQ(first.forward_transient[0], (List{Bytes(6 * (64 + 264)), Bytes(4 * (64 + 264))}));
  EXPECT_EQ(both.forward_transient[0], (List{Bytes(6 * (64 + 528)), Bytes(4 * (64 + 528))}));
  // B0 in its first layer, the last one: 3,272 with 5 copied rows of 136. In `first` those of
  // the layer before are fetched besides; in `both` its own are fetched in place of the copy.
  EXPECT_EQ(kept.backward_transient[0][0], Bytes(3272));
  EXPECT_EQ(first.backward_transient[0][0], Bytes(3272 + 5 * 264));
  EXPECT_EQ(both.backward_transient[0][0], Bytes(3272 + 5 * (264 + 264 - 136)));
  const auto host = [&](RecomputeByLayer recompute) {
    return table_of(with_recompute(cost, std::move(recompute)), {{0, 2}})
        .host_bytes(packs, {Tokens(10)})
        .rows[0];
  };
  EXPECT_EQ(host({R::kElementwise, R::kFull}), (List{Bytes(0), Bytes(0)}));
  EXPECT_EQ(host({R::kOffload, R::kFull}), (List{Bytes(6 * 264), Bytes(4 * 264)}));
  EXPECT_EQ(host({R::kOffload, R::kOffload}), (List{Bytes(6 * 528), Bytes(4 * 528)}));
}

TEST(LayerMemory, OfAnotherAccountingIsInProportion) {
  Costs cost;
  cost.shape = testing::small_gqa();
  cost.row_bytes = 100;
  const StageLayout layout{{0, 3}};
  const double share =
      static_cast<double>(row_bytes(cost.shape, cost.dtype, Recompute::kMlp).count()) /
      static_cast<double>(row_bytes(cost.shape, cost.dtype).count());
  const RecomputingCosts mixed =
      with_recompute(cost, {Recompute::kMlp, Recompute::kElementwise, Recompute::kElementwise});
  const Bytes token(static_cast<std::int64_t>(std::ceil(200 + 100 * share)));
  EXPECT_EQ(sequence_bytes(mixed, layout, 0, Tokens(5)), token * 5);
  const PackPlan packs{{{{{SequenceId(0), Tokens(0), Tokens(5)}}}},
                       {{{{SequenceId(0), Tokens(0), Tokens(5)}}}}};
  EXPECT_EQ(task_bytes(mixed, layout, packs, {Tokens(5)}).rows[0][0], token * 5);
  // Rows of two layers at most are on the device while they are on their way.
  const TaskBytes offloaded =
      task_bytes(with_recompute(cost, Recompute::kOffload), layout, packs, {Tokens(5)});
  EXPECT_EQ(offloaded.rows[0][0], Bytes(0));
  EXPECT_EQ(offloaded.forward_transient[0][0], Bytes(2 * 100 * 5));
  EXPECT_EQ(offloaded.backward_transient[0][0], Bytes(2 * 100 * 5));
}

}  // namespace
}  // namespace slimpack
