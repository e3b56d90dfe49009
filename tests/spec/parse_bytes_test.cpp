#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

std::int64_t bytes(std::string_view text) {
  return parse_bytes(text, "limit").count();
}

TEST(ParseBytes, UnderstandsEveryUnit) {
  EXPECT_EQ(bytes("123"), 123);
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("7B"), 7);
  EXPECT_EQ(bytes("2kB"), 2'000);
  EXPECT_EQ(bytes("2MB"), 2'000'000);
  EXPECT_EQ(bytes("1.5GB"), 1'500'000'000);
  EXPECT_EQ(bytes("3TB"), 3'000'000'000'000);
  EXPECT_EQ(bytes("2KiB"), 2048);
  EXPECT_EQ(bytes("64MiB"), 67'108'864);        // 64 · 2^20
  EXPECT_EQ(bytes("12 GiB"), 12'884'901'888);   // 12 · 2^30
  EXPECT_EQ(bytes("0.5TiB"), 549'755'813'888);  // 2^39
  EXPECT_EQ(bytes("0.001KiB"), 1);              // 1.024, the fraction is dropped
}

TEST(ParseBytes, RefusesWithValueRuleAndRemedyOnOneLine) {
  for (const char* text :
       {"", "GiB", "-1", "+1", "1e3", "1 G", "12gib", "nan", "inf", "1..5GB", ".", "1.5", "0x10",
        "99999999999999999999", "9999999999TiB", "99999999999999999999.5GB", "1\n2"}) {
    try {
      const Bytes value = parse_bytes(text, "plan.memory_cap");
      FAIL() << "\"" << text << "\" gave " << value.count();
    } catch (const InvalidInput& e) {
      const std::string message = e.what();
      EXPECT_NE(message.find("plan.memory_cap is"), std::string::npos) << message;
      EXPECT_NE(message.find("64MiB"), std::string::npos) << message;
    }
  }
}

RC_GTEST_PROP(ParseBytes, IntegersAreExact, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 52);
  RC_ASSERT(bytes(fmt::format("{}", count)) == count);
  RC_ASSERT(bytes(fmt::format("{}KiB", count)) == count * 1024);
}

RC_GTEST_PROP(ParseBytes, AnyTextIsBytesOrInvalidInput, (const std::string& text)) {
  try {
    RC_ASSERT(bytes(text) >= 0);
  } catch (const InvalidInput&) {
    RC_SUCCEED("refused");
  }
}

}  // namespace
}  // namespace slimpack
