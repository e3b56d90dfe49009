#include "slimpack/spec/recompute.h"

#include <gtest/gtest.h>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

TEST(Recompute, NamesAreThoseOfTheConfiguration) {
  EXPECT_EQ(to_string(Recompute::kNothing), "nothing");
  EXPECT_EQ(to_string(Recompute::kElementwise), "elementwise");
  EXPECT_EQ(to_string(Recompute::kAttention), "attention");
  EXPECT_EQ(to_string(Recompute::kMlp), "mlp");
  EXPECT_EQ(to_string(Recompute::kFull), "full");
  EXPECT_EQ(to_string(Recompute::kOffload), "offload");
}

TEST(Recompute, EveryNameIsReadBackAndStandsInTheRule) {
  for (const Recompute recompute : all_recomputations()) {
    EXPECT_EQ(recompute_from(to_string(recompute)), recompute);
    EXPECT_NE(kRecomputeNames.find(to_string(recompute)), std::string_view::npos);
  }
}

TEST(Recompute, OtherNamesAreNone) {
  for (const char* name : {"", "Full", "full ", "selective", "auto", "none"})
    EXPECT_EQ(recompute_from(name), std::nullopt) << name;
}

TEST(Recompute, AllAreListedOnceInOrder) {
  const auto all = all_recomputations();
  ASSERT_EQ(all.size(), kRecomputations);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(static_cast<std::size_t>(all[i]), i);
}

TEST(Recompute, OfALayerIsItsOwnOrElementwiseWhereNoneIsSaid) {
  const RecomputeByLayer two{Recompute::kFull, Recompute::kMlp};
  EXPECT_EQ(recompute_of(two, 0), Recompute::kFull);
  EXPECT_EQ(recompute_of(two, 1), Recompute::kMlp);
  EXPECT_EQ(recompute_of({}, 7), Recompute::kElementwise);
  EXPECT_THROW((void)recompute_of(two, 2), InternalError);
}

TEST(Recompute, IsDescribedByNumbersOfLayersWhereTheyDiffer) {
  using R = Recompute;
  EXPECT_EQ(describe({}), "elementwise");
  EXPECT_EQ(describe(RecomputeByLayer(3, R::kMlp)), "mlp");
  EXPECT_EQ(describe(RecomputeByLayer{R::kFull, R::kNothing, R::kMlp, R::kFull}),
            "1 layer nothing, 1 mlp, 2 full");
  EXPECT_EQ(describe(RecomputeByLayer{R::kMlp, R::kElementwise, R::kElementwise}),
            "2 layers elementwise, 1 mlp");
}

}  // namespace
}  // namespace slimpack
