#include "slimpack/base/human.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

namespace slimpack {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(HumanBytes, use_binary_units_with_one_decimal_below_100) {
  EXPECT_EQ(human_bytes(Bytes(0)), "0 B");
  EXPECT_EQ(human_bytes(Bytes(1023)), "1023 B");
  EXPECT_EQ(human_bytes(Bytes(1024)), "1.0 KiB");
  EXPECT_EQ(human_bytes(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(human_bytes(Bytes(3LL << 29)), "1.5 GiB");    // 1.5 · 2^30
  EXPECT_EQ(human_bytes(Bytes(118LL << 20)), "118 MiB");  // 100 or more: no decimal
  EXPECT_EQ(human_bytes(Bytes(-(3LL << 29))), "-1.5 GiB");
}

TEST(HumanBytes, that_round_up_to_a_full_unit_move_to_it) {
  // 1 MiB − 1 byte is 1023.999 KiB, which would print as 1024 KiB.
  EXPECT_EQ(human_bytes(Bytes((1 << 20) - 1)), "1.0 MiB");
  // 99.96 KiB rounds to 100.0 at one decimal, so it prints without.
  EXPECT_EQ(human_bytes(Bytes(102'359)), "100 KiB");
}

TEST(HumanBytes, of_the_largest_number_stay_in_the_largest_unit) {
  EXPECT_EQ(human_bytes(Bytes(INT64_MAX)), "8192 PiB");  // 2^63 / 2^50
}

TEST(HumanCount, uses_decimal_units) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(812), "812");
  EXPECT_EQ(human_count(999.6), "1.0 k");
  EXPECT_EQ(human_count(12'345), "12.3 k");
  EXPECT_EQ(human_count(1'800'000), "1.8 M");
  EXPECT_EQ(human_count(256e9), "256 G");
}

TEST(HumanDuration, goes_from_nanoseconds_to_days) {
  EXPECT_EQ(human_duration(Nanos(0)), "0 ns");
  EXPECT_EQ(human_duration(Nanos(850)), "850 ns");
  EXPECT_EQ(human_duration(Nanos(1'500)), "1.5 µs");
  EXPECT_EQ(human_duration(Nanos(12'300'000)), "12.3 ms");
  EXPECT_EQ(human_duration(Nanos(42 * kSecond)), "42.0 s");
  EXPECT_EQ(human_duration(Nanos(83 * kSecond)), "1 m 23 s");
  EXPECT_EQ(human_duration(Nanos(7'500 * kSecond)), "2 h 05 m");  // 7,200 + 300
  EXPECT_EQ(human_duration(Nanos((3 * 24 + 4) * 3600 * kSecond)), "3 d 04 h");
  EXPECT_EQ(human_duration(Nanos(-1'500)), "-1.5 µs");
}

TEST(HumanDuration, never_prints_sixty_of_a_unit) {
  EXPECT_EQ(human_duration(Nanos(59'940'000'000)), "59.9 s");
  EXPECT_EQ(human_duration(Nanos(59'990'000'000)), "1 m 00 s");
  EXPECT_EQ(human_duration(Nanos(3'599'900'000'000)), "1 h 00 m");
  EXPECT_EQ(human_duration(Nanos((24 * 3600 - 1) * kSecond)), "1 d 00 h");
}

TEST(HumanShare, is_a_percentage_with_one_decimal) {
  EXPECT_EQ(human_share(0.1234), "12.3%");
  EXPECT_EQ(human_share(1), "100.0%");
}

TEST(BinaryCount, has_units_of_powers_of_1024) {
  EXPECT_EQ(binary_count(812), "812");
  EXPECT_EQ(binary_count(4096), "4K");
  EXPECT_EQ(binary_count(16 << 20), "16M");
  EXPECT_EQ(binary_count(std::int64_t{3} << 30), "3G");
}

TEST(Grouped, separates_thousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(-1'234'567), "-1,234,567");
  EXPECT_EQ(grouped(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Counted, has_a_plural_for_all_counts_but_one) {
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(1, "document"), "1 document");
  EXPECT_EQ(counted(2'048, "document"), "2,048 documents");
}

RC_GTEST_PROP(Grouped, keeps_every_digit, (std::int64_t number)) {
  std::string text = grouped(number);
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  RC_ASSERT(text == std::to_string(number));
}

}  // namespace
}  // namespace slimpack
