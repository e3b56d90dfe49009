// The tables [[data.sources]] and [[evaluation.sources]] of run configurations.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "slimpack/spec/run_config.h"
#include "tests/spec/run_config_texts.h"

namespace slimpack {
namespace {

using run_config_texts::error_of;
using run_config_texts::kModel;
using run_config_texts::parse;
using run_config_texts::parse_more;

TEST(SourceTables, AMixtureHasWeightsOrEpochs) {
  const std::string weighted =
      "[[data.sources]]\nprefix = \"a\"\nweight = 3\n[[data.sources]]\nprefix = \"/b\"\nweight = "
      "0.5\n";
  EXPECT_EQ(parse_more(weighted).data.sources,
            (std::vector<DataSource>{{"/base/a", 3.0}, {"/b", 0.5}}));
  const RunConfig repeated =
      parse_more("[data]\nsources = [{prefix = \"a\", epochs = 1.5}, {prefix = \"b\"}]");
  EXPECT_EQ(repeated.data.sources,
            (std::vector<DataSource>{{"/base/a", {}, 1.5}, {"/base/b", {}, 1}}));
  EXPECT_EQ(repeated.data.datasets(), repeated.data.sources);
  EXPECT_EQ(parse_more("[data]\nprefix = \"a\"").data.datasets(),
            (std::vector<DataSource>{{"/base/a"}}));
  EXPECT_TRUE(parse(kModel).data.datasets().empty());
}

TEST(SourceTables, AnOverriddenPrefixReplacesTheFilesSources) {
  const RunConfig config = parse_more(
      "[[data.sources]]\nprefix = \"a\"\nweight = 0\n[[evaluation.sources]]\nname = \"x\"\nprefix "
      "= \"x\"\n",
      {"data.prefix=b", "evaluation.prefix=c"});
  EXPECT_TRUE(config.data.sources.empty());  // and not looked at: a weight of 0 is bad
  EXPECT_EQ(config.data.prefix, "b");
  EXPECT_TRUE(config.evaluation.sources.empty());
  EXPECT_EQ(config.evaluation.prefix, "c");
  EXPECT_NE(error_of(kModel, {"data.sources=[{prefix=\"a\"}]"})
                .find("data.sources is an array, must be tables [[data.sources]] of the run file"),
            std::string::npos);
}

TEST(SourceTables, HeldOutSetsHaveNames) {
  const RunConfig config = parse_more(
      "[evaluation]\nevery = 1\n[[evaluation.sources]]\nname = \"code\"\nprefix = \"c\"\n"
      "[[evaluation.sources]]\nname = \"web-2.1_x\"\nprefix = \"/w\"\n");
  EXPECT_EQ(config.evaluation.sources,
            (std::vector<HeldOutSource>{{"code", "/base/c"}, {"web-2.1_x", "/w"}}));
  EXPECT_EQ(parse_more("[evaluation]\nprefix = \"a\"").evaluation.datasets(),
            (std::vector<HeldOutSource>{{"", "/base/a"}}));
}

struct BadTable {
  const char* text;
  const char* message;  ///< part of it
};

class BadTables : public testing::TestWithParam<BadTable> {};

TEST_P(BadTables, AreRefusedWithPlaceValueAndRule) {
  run_config_texts::expect_refused(GetParam().text, GetParam().message);
}

const BadTable kBadTables[] = {
    {"[data]\nsources = []", "data.sources is an array, must be tables [[data.sources]]"},
    {"[data]\nsources = [3]", "data.sources is an array, must be tables"},
    {"[data]\nsources = [{prefix = \"a\"}, 3]", "data.sources is an array, must be tables"},
    {"[data]\nsources = \"a\"", "data.sources is \"a\", must be tables"},
    {"[data.sources]\nprefix = \"a\"", "data.sources is a table, must be tables"},
    {"[[data.sources]]\nweight = 1", "run.toml:1: data.sources[0] has no prefix; give it one"},
    {"[[data.sources]]\nprefix = \"a\"\n[[data.sources]]\nprefix = \"\"",
     "run.toml:4: data.sources[1].prefix is \"\", must be a path"},
    {"[[data.sources]]\nprefix = 3", "run.toml:2: data.sources[0].prefix is 3, must be a path"},
    {"[[data.sources]]\nprefix = \"a\"\nweigt = 3",
     "run.toml:3: key \"weigt\" is unknown in data.sources[0]; did you mean \"weight\"?"},
    {"[[data.sources]]\nprefix = \"a\"\nweight = 0",
     "run.toml:3: data.sources[0].weight is 0, must be a number above 0"},
    {"[[data.sources]]\nprefix = \"a\"\nweight = -1", "weight is -1, must be a number above 0"},
    {"[[data.sources]]\nprefix = \"a\"\nweight = nan", "weight is nan, must be a number above 0"},
    {"[[data.sources]]\nprefix = \"a\"\nweight = \"x\"", "weight is \"x\", must be a number"},
    {"[[data.sources]]\nprefix = \"a\"\nepochs = 0", "epochs is 0, must be a number above 0"},
    {"[[data.sources]]\nprefix = \"a\"\nepochs = inf", "epochs is inf, must be a number above 0"},
    {"[[data.sources]]\nprefix = \"a\"\nepochs = 1\nweight = 1",
     "data.sources[0] has a weight and epochs; keep one of them"},
    {"[model]\nconfig=\"m\"\n[[data.sources]]\nprefix = \"a\"\nweight = "
     "1\n[[data.sources]]\nprefix = \"b\"",
     "data.sources[0] has a weight and data.sources[1] has none"},
    {"[model]\nconfig=\"m\"\n[[data.sources]]\nprefix = \"a\"\nepochs = "
     "1\n[[data.sources]]\nprefix = \"b\"\nweight = 2",
     "data.sources[1] has a weight and data.sources[0] has none"},
    {"[model]\nconfig=\"m\"\n[[data.sources]]\nprefix = \"a\"\n[[data.sources]]\nprefix = "
     "\"a\"",
     "data.sources[0] and [1] have the same prefix, \"/base/a\""},
    {"[model]\nconfig=\"m\"\n[data]\nprefix = \"a\"\n[[data.sources]]\nprefix = \"b\"",
     "data.prefix and data.sources are both set; keep one of them"},
    {"[[evaluation.sources]]\nprefix = \"a\"", "evaluation.sources[0] has no name"},
    {"[[evaluation.sources]]\nname = \"a\"", "evaluation.sources[0] has no prefix"},
    {"[[evaluation.sources]]\nname = \"\"", "evaluation.sources[0].name is \"\", must be a name"},
    {"[[evaluation.sources]]\nname = \"a b\"", "evaluation.sources[0].name is \"a b\""},
    {"[[evaluation.sources]]\nname = 3", "evaluation.sources[0].name is 3"},
    {"[[evaluation.sources]]\nweight = 3",
     "key \"weight\" is unknown in evaluation.sources[0]; known are name, prefix"},
    {"[model]\nconfig=\"m\"\n[[evaluation.sources]]\nname = \"a\"\nprefix = "
     "\"a\"\n[[evaluation.sources]]\nname = \"a\"\nprefix = \"b\"",
     "evaluation.sources[0] and [1] have the same name, \"a\""},
    {"[model]\nconfig=\"m\"\n[evaluation]\nprefix = \"a\"\n[[evaluation.sources]]\nname = "
     "\"b\"\nprefix = \"b\"",
     "evaluation.prefix and evaluation.sources are both set"},
};

INSTANTIATE_TEST_SUITE_P(SourceTables, BadTables, testing::ValuesIn(kBadTables));

}  // namespace
}  // namespace slimpack
