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

Table three_columns() {
  Table table(
      {{"planner", Align::kLeft}, {"step"}, {"peak", Align::kRight, 1}, {"gap", Align::kRight, 2}});
  table.add_row({"slimpack", "1.5 s", "12 MiB", "3.2%"});
  return table;
}

TEST(Table, leaves_out_what_is_most_expendable_until_it_fits) {
  // 8 + 5 + 6 + 4 and three gaps of 2 are 29 columns; without the gap 23, without the peak 15.
  EXPECT_EQ(three_columns().text(29),
            "planner    step    peak   gap\n"
            "────────  ─────  ──────  ────\n"
            "slimpack  1.5 s  12 MiB  3.2%\n");
  const char* const without_gap =
      "planner    step    peak\n"
      "────────  ─────  ──────\n"
      "slimpack  1.5 s  12 MiB\n";
  EXPECT_EQ(three_columns().text(28), without_gap);
  EXPECT_EQ(three_columns().text(23), without_gap);
  EXPECT_EQ(three_columns().text(22),
            "planner    step\n"
            "────────  ─────\n"
            "slimpack  1.5 s\n");
}

TEST(Table, folds_its_last_column_of_words_where_nothing_is_expendable) {
  Table table({{"", Align::kLeft}, {"", Align::kLeft}});
  table.add_row({"tokens", "12"});
  table.add_row({"again", "elementwise in 24 layers, mlp in 8 layers"});
  // 30 columns leave 30 − 6 − 2 = 22 to the second one.
  EXPECT_EQ(table.text(30),
            "tokens  12\n"
            "again   elementwise in 24\n"
            "        layers, mlp in 8\n"
            "        layers\n");
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
