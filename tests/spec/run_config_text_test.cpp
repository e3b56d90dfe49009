#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "tests/spec/run_config_texts.h"

namespace slimpack {
namespace {

using run_config_texts::error_of;
using run_config_texts::kModel;
using run_config_texts::parse;

TEST(RunConfig, AnyCharacterMayStandInQuotesAndComments) {
  const auto config_of = [](std::string_view value) {
    return parse(fmt::format("# ü\n[model]  # 'ä\nconfig = {}  # \"é", value)).model.config;
  };
  EXPECT_EQ(config_of("\"/é\\\"é\""), "/é\"é");
  EXPECT_EQ(config_of("'/é\\'"), "/é\\");
  EXPECT_EQ(config_of("\"\"\"/\\\n é\"\"\""), "/é");
  EXPECT_EQ(config_of("\"\"\"/\"é\n\"\"é\"\"\"\"\""), "/\"é\n\"\"é\"\"");
  EXPECT_EQ(config_of("'''/é\n\"é'''"), "/é\n\"é");
  EXPECT_EQ(parse("\xef\xbb\xbf[model]\nconfig = \"/c\"").model.config, "/c");
}

TEST(RunConfig, DeepNestingIsRefusedRatherThanFatal) {
  std::string name = "a";
  for (int i = 0; i < 30'000; ++i) name += ".a";
  EXPECT_EQ(error_of(fmt::format("{}[{}]", kModel, name)),
            "run.toml:3: more than 100 dots on a line; shorten the line");
  EXPECT_NE(error_of(name + " = 1").find("dots on a line"), std::string::npos);
  const std::string brackets(30'000, '[');
  EXPECT_NE(error_of(brackets).find("not valid TOML"), std::string::npos);
  EXPECT_NE(error_of("[train]\nsteps = " + brackets).find("not valid TOML"), std::string::npos);
  const std::string in_override = fmt::format("train.steps={{{} = 1}}", name);
  EXPECT_NE(error_of(kModel, {in_override}).find("must be an integer"), std::string::npos);
}

RC_GTEST_PROP(RunConfig, DamagedTextIsReadOrRefusedButNeverFailsOtherwise, ()) {
  std::string text = run_config_reference();
  const int edits = *rc::gen::inRange(1, 8);
  for (int i = 0; i < edits; ++i) {
    const auto at = static_cast<std::size_t>(
        *rc::gen::inRange<std::int64_t>(0, static_cast<std::int64_t>(text.size())));
    text[at] = *rc::gen::element('"', '[', ']', '=', '.', '\n', '#', '9', '-', 'e', '\xff', '\'');
  }
  try {
    RC_ASSERT(!parse(text).model.config.empty());
  } catch (const InvalidInput& e) {
    RC_ASSERT(std::string_view(e.what()).starts_with("run.toml"));
    RC_ASSERT(std::string_view(e.what()).find('\n') == std::string_view::npos);
  }
}

RC_GTEST_PROP(RunConfig, AnyOverrideIsReadOrRefused, (const std::string& value)) {
  const std::string key = *rc::gen::element<std::string>("train.steps", "output.dir", "train.dtype",
                                                         "plan.memory_cap", "train.beta1");
  try {
    (void)parse(kModel, {key + "=" + value});
  } catch (const InvalidInput& e) {
    RC_ASSERT(std::string_view(e.what()).starts_with("override"));
  }
}

}  // namespace
}  // namespace slimpack
