#include "bench/published/csv.h"

#include <gtest/gtest.h>

#include "tests/published/refusal.h"

namespace slimpack::bench {
namespace {

std::string refused(std::string_view text) {
  return refusal([&] { const CsvTable table(text, "name,count,figure", "t.csv"); });
}

TEST(Csv, ReadsQuotedCellsWithCommasAndQuotes) {
  const CsvTable table("name,count,figure\n\"a, \"\"b\"\"\",3,2.5\nc,,\n", "name,count,figure",
                       "t.csv");
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows()[0].text("name"), "a, \"b\"");
  EXPECT_EQ(table.rows()[0].count("count"), 3);
  EXPECT_EQ(table.rows()[0].figure("figure"), 2.5);
  EXPECT_EQ(table.rows()[1].count("count"), 0) << "an empty cell";
  EXPECT_EQ(table.rows()[1].figure("figure"), 0);
}

TEST(Csv, RefusesTablesOfAnotherForm) {
  EXPECT_EQ(refused(""), "t.csv: is empty, must begin with \"name,count,figure\"; add the header");
  EXPECT_EQ(refused("name,count\n"),
            "t.csv:1: begins with \"name,count\", must begin with \"name,count,figure\"; correct "
            "the header");
  EXPECT_EQ(refused("name,count,figure\na,1\n"),
            "t.csv:2: has 2 cells, must have 3 as the header; correct the line");
  EXPECT_EQ(refused("name,count,figure\n\"a,1,2\n"),
            "t.csv:2: a quote is open at the end of the line; close it");
}

TEST(Csv, RefusesCellsThatAreNoNumbersOfTheirKind) {
  const CsvTable table("name,count,figure\na,0,-1\nb,1.5,1e400\nc,7x,nan\nd,,\n",
                       "name,count,figure", "t.csv");
  for (std::size_t r = 0; r < 3; ++r) {
    const CsvRow& row = table.rows()[r];
    const std::string count = refusal([&] { static_cast<void>(row.count("count")); });
    EXPECT_EQ(count, "t.csv:" + std::to_string(r + 2) + ": count is \"" + row.text("count") +
                         "\", must be a whole number from 1 to 2147483647; correct the cell");
    const std::string figure = refusal([&] { static_cast<void>(row.figure("figure")); });
    EXPECT_EQ(figure, "t.csv:" + std::to_string(r + 2) + ": figure is \"" + row.text("figure") +
                          "\", must be a number above 0; correct the cell");
  }
  const CsvRow& empty = table.rows()[3];
  EXPECT_NE(refusal([&] { static_cast<void>(empty.needed_count("count")); }), "accepted");
  EXPECT_NE(refusal([&] { static_cast<void>(empty.needed_figure("figure")); }), "accepted");
}

}  // namespace
}  // namespace slimpack::bench
