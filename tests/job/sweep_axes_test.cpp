#include "slimpack/job/sweep_axes.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

SweepAxis axis_of(const std::string& text) {
  return sweep_axes(std::vector<std::string>{text}).front();
}

void refuses(std::vector<std::string> over, std::initializer_list<std::string_view> parts) {
  expect_invalid_input([&] { (void)sweep_axes(over); }, parts);
}

TEST(SweepAxes, AreNamedAsShortAsTheRunFileAllows) {
  EXPECT_EQ(axis_of("granularity=64"), axis_of("plan.granularity=64"));
  EXPECT_EQ(axis_of("parallel.pp=1,2").name, "pp");
  EXPECT_EQ(axis_of("cost.file=a.json").name, "cost.file");  // hardware has a file, too
  EXPECT_EQ(override_of(axis_of("granularity=64,128"), "128"), "plan.granularity=128");
  EXPECT_EQ(override_of(axis_of("cost.file=a.json"), "a.json"), "cost.file=a.json");
}

TEST(SweepAxes, KeepTheOrderOfTheirValues) {
  const SweepAxis axis = axis_of("packs=64,8,16");
  EXPECT_EQ(axis.values, (std::vector<std::string>{"64", "8", "16"}));
  EXPECT_EQ(axis.finer, Finer::kHigher);
  EXPECT_EQ(axis_of("granularity=64").finer, Finer::kLower);
  EXPECT_EQ(axis_of("pp=2").finer, Finer::kNeither);
  EXPECT_TRUE(is_search_axis(axis));
  EXPECT_FALSE(is_search_axis(axis_of("cuts=any")));
}

TEST(SweepAxes, KeepAChoiceOfTheSearchToItsValue) {
  SearchOptions search;
  keep_to(search, axis_of("packs=7"), "7");
  keep_to(search, axis_of("taper=0.5"), "0.5");
  keep_to(search, axis_of("order=3"), "3");
  EXPECT_EQ(search.packs, 7);
  EXPECT_EQ(search.taper, 0.5);
  EXPECT_EQ(search.short_first, 3);
  EXPECT_FALSE(search.baselines);
}

TEST(SweepAxes, RefuseWhatIsNoAxis) {
  refuses({"packs"}, {"--over packs: must be AXIS=V1,V2"});
  refuses({"pakcs=1"}, {"'pakcs' is unknown", "did you mean \"packs\"?"});
  refuses({"plan.granularty=1"}, {"did you mean \"plan.granularity\"?"});
  refuses({"something=1"}, {"'something' is unknown", "packs, taper, order or a key"});
  refuses({"=1"}, {"axis ''"});
  refuses({"seed=1,2"}, {"'seed' is a key of several sections", "data.seed, train.seed"});
  refuses({"output.dir=a,b"}, {"output.dir changes nothing about a step"});
  refuses({"keep_last=1,2"}, {"checkpoint.keep_last changes nothing"});
  refuses({"pp=1,2", "parallel.pp=4"}, {"pp is there twice"});
}

TEST(SweepAxes, RefuseValuesThatAreEmptyOrThereTwice) {
  refuses({"packs="}, {"--over packs: a value is empty"});
  refuses({"packs=1,,2"}, {"a value is empty"});
  refuses({"packs=1,2,"}, {"a value is empty"});
  refuses({"packs=1,2,1"}, {"1 is there twice"});
}

TEST(SweepAxes, RefuseValuesThatTheSearchDoesNotTake) {
  SearchOptions search;
  for (const char* value : {"0", "-1", "many", "1.5", "99999999999", "2000000", "8 "})
    expect_invalid_input([&] { keep_to(search, axis_of("packs=1"), value); },
                         {"--over packs: ", value, "must be an integer from 1 to 1048576"});
  for (const char* value : {"0", "-0.5", "1.01", "nan", "inf", "half", "0.5x"})
    expect_invalid_input([&] { keep_to(search, axis_of("taper=1"), value); },
                         {"--over taper: ", value, "above 0 and at most 1"});
  expect_invalid_input([&] { keep_to(search, axis_of("order=1"), "-1"); },
                       {"--over order: -1 must be an integer from 0"});
}

}  // namespace
}  // namespace slimpack
