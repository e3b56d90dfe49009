#include "slimpack/spec/recompute.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

TEST(Recompute, NamesAreThoseOfTheConfiguration) {
  EXPECT_EQ(to_string(Recompute::kNone), "none");
  EXPECT_EQ(to_string(Recompute::kAttention), "attention");
  EXPECT_EQ(to_string(Recompute::kMlp), "mlp");
  EXPECT_EQ(to_string(Recompute::kFull), "full");
}

TEST(Recompute, EveryNameIsReadBack) {
  for (const Recompute recompute : all_recomputations())
    EXPECT_EQ(recompute_from(to_string(recompute)), recompute);
}

TEST(Recompute, OtherNamesAreNone) {
  for (const char* name : {"", "None", "none ", " none", "auto", "attn", "fully", "0"})
    EXPECT_EQ(recompute_from(name), std::nullopt) << name;
}

TEST(Recompute, AllAreListedOnceInOrder) {
  const auto all = all_recomputations();
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(static_cast<std::size_t>(all[i]), i);
}

}  // namespace
}  // namespace slimpack
