#include "slimpack/cost/fit.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

TEST(FitWarning, IsGivenOnlyWhereTheErrorIsLarge) {
  WorstFit worst{{Tokens(512), Tokens(0), 1, Nanos(1000)}, Pass::kForward, 0.3};
  EXPECT_FALSE(fit_warning(worst).has_value());
  worst.error = 0.31;
  EXPECT_TRUE(fit_warning(worst).has_value());
}

TEST(FitWarning, NamesLoadWhereMeasurementsDoNotRepeat) {
  const WorstFit worst{{Tokens(256), Tokens(0), 4, Nanos(1000), 0.3}, Pass::kForward, 0.53};
  EXPECT_EQ(*fit_warning(worst),
            "warning: the cost model is 53.0% off its measurement of forward of 4 slices of 256 "
            "tokens, whose repetitions differ by 30.0%: something else seems to run on this "
            "machine; measure again when it does not");
}

TEST(FitWarning, NamesTheModelWhereMeasurementsRepeat) {
  const WorstFit worst{{Tokens(1024), Tokens(7168), 1, Nanos(1000), 0.02}, Pass::kBackward, 0.53};
  EXPECT_EQ(*fit_warning(worst),
            "warning: the cost model is 53.0% off its measurement of backward of 1,024 tokens "
            "after a prefix of 7,168, whose repetitions differ by 2.0%: a kernel seems to take "
            "times that the model cannot describe; expect predictions of such slices to be as far "
            "off");
}

}  // namespace
}  // namespace slimpack
