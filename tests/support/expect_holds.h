// Properties in tests that RC_GTEST_PROP cannot declare: those with a parameter.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

namespace slimpack::testing {

/// Checks a rapidcheck property as part of the running test; a failure names the seed and the
/// shrunk case. `share` of the configured number of cases, where each takes long.
template <class Testable>
void expect_holds(Testable&& testable, double share = 1) {
  const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(info->test_suite_name()) + "/" + info->name();
  metadata.description = info->name();
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = std::max(1, static_cast<int>(share * params.maxSuccess));
  const auto result = rc::detail::checkTestable(std::forward<Testable>(testable), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  ADD_FAILURE() << text.str() << "\nseed " << params.seed
                << ", to run again with RC_PARAMS=seed=" << params.seed;
}

}  // namespace slimpack::testing
