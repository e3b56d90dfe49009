#include "bench/published/runtime.h"

#include <gtest/gtest.h>

#include "bench/published/toml_figures.h"
#include "tests/published/refusal.h"

namespace slimpack::bench {
namespace {

TEST(Runtime, ReadsFiguresAndLeavesOthersAtZero) {
  const RuntimeSpec runtime = runtime_from_toml("layer_host_us = 1500\nscore_bytes = 2.5\n", "r");
  RuntimeSpec expected;
  expected.layer_host_us = 1500;
  expected.score_bytes = 2.5;
  EXPECT_EQ(runtime, expected);
}

TEST(Runtime, RefusesUnknownKeysAndFigures) {
  EXPECT_EQ(refusal([] { static_cast<void>(runtime_from_toml("layer_hosts = 1\n", "r.toml")); }),
            "r.toml:1: unknown key \"layer_hosts\"; use one of bench/published/runtime.h");
  for (const char* value : {"-1", "\"much\"", "inf"})
    EXPECT_NE(
        refusal([&] {
          static_cast<void>(runtime_from_toml(std::string("score_bytes = ") + value, "r.toml"));
        }),
        "accepted")
        << value;
}

TEST(TomlFigures, ReplaceValuesAndKeepComments) {
  const std::vector<std::pair<std::string_view, double>> figures{{"a", 2.34567}, {"bb", 1e9}};
  EXPECT_EQ(with_figures("# a = 0\na = 1\nba = 7\nbb = 3", figures, "f"),
            "# a = 0\na = 2.346\nba = 7\nbb = 1e+09");
  EXPECT_EQ(refusal([&] { static_cast<void>(with_figures("a = 1\n", figures, "f.toml")); }),
            "f.toml: has no line \"bb = …\" to put a fitted figure in; add it");
}

}  // namespace
}  // namespace slimpack::bench
