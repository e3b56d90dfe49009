#include "slimpack/base/table.h"

#include <gtest/gtest.h>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

TEST(Table, aligns_words_left_and_numbers_right) {
  Table table({{"planner", Align::kLeft}, {"packs"}});
  table.add_row({"slimpack", "512"});
  table.add_row({"packed", "9"});
  EXPECT_EQ(table.text(),
            "planner   packs\n"
            "────────  ─────\n"
            "slimpack    512\n"
            "packed        9\n");
}

TEST(Table, counts_characters_and_not_bytes) {
  Table table({{"t"}, {"unit", Align::kLeft}});
  table.add_row({"1.5 µs", "–"});  // 6 characters, 7 bytes
  table.add_row({"12.3 ms", "x"});
  EXPECT_EQ(table.text(),
            "      t  unit\n"
            "───────  ────\n"
            " 1.5 µs  –\n"
            "12.3 ms  x\n");
}

TEST(Table, without_titles_has_no_header) {
  Table table({{"", Align::kLeft}, {""}});
  table.add_row({"tokens", "12"});
  table.add_row({"mean", "3"});
  EXPECT_EQ(table.text(), "tokens  12\nmean     3\n");
}

TEST(Table, keeps_the_place_of_an_empty_first_cell) {
  Table table({{"ab", Align::kLeft}, {"n"}});
  table.add_row({"", "1"});
  EXPECT_EQ(table.text(), "ab  n\n──  ─\n    1\n");
}

TEST(Table, refuses_a_row_of_another_width) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), InternalError);
}

TEST(Bar, is_drawn_in_eighths_of_a_cell) {
  EXPECT_EQ(bar(0, 4), "");
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0.625, 4), "██▌");  // 2.5 cells
  EXPECT_EQ(bar(0.001, 4), "");     // 0.03 eighths
}

TEST(Bar, clips_shares_outside_its_range) {
  EXPECT_EQ(bar(-1, 2), "");
  EXPECT_EQ(bar(7, 2), "██");
}

}  // namespace
}  // namespace slimpack
