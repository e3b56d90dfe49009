#include "slimpack/schedule/ticks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

/// Slices of `length` tokens of one sequence, each a pack of its own; backward from the last.
PackPlan sliced(int count, int length) {
  PackPlan packs;
  for (int s = 0; s < count; ++s)
    packs.forward.push_back({{Slice{SequenceId(0), Tokens(s * length), Tokens((s + 1) * length)}}});
  packs.backward.assign(packs.forward.rbegin(), packs.forward.rend());
  return packs;
}

StepPlan plan_of(PackPlan packs) {
  return {.lengths = {}, .layout = {}, .replicas = {{{}, std::move(packs)}}};
}

Schedule with_exchanges(const PackPlan& packs, Schedule schedule) {
  schedule.exchanges = context_exchanges(plan_of(packs), {schedule}).front();
  return schedule;
}

TEST(ContextExchanges, EvenTwoRanksOut) {
  // Slice i of 2 tokens has 2 · 2i + 3 pairs. Rank 0 is a slice ahead forward: 4 pairs more, of
  // which 2 go to rank 1, that is one key for both queries. Backward it is a slice behind, and
  // slices come from the last: again 4 pairs more.
  const PackPlan packs = sliced(4, 2);
  const Schedule order = with_exchanges(packs, sliced_one_f_one_b(packs, 2, 2));
  EXPECT_EQ(schedule_to_text(order),
            "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
            "1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n"
            "0F1>1F0:1,0F2>1F1:1,0F3>1F2:1,0B0>1B1:1,0B1>1B2:1,0B2>1B3:1\n");
  EXPECT_EQ(check_schedule(packs, order), std::vector<std::string>{});
}

TEST(ContextExchanges, PairTheMostWithTheLeast) {
  // On four ranks in the fifth tick slices 4, 3, 2, 1 of 4 tokens run, with 74, 58, 42 and 26
  // pairs: rank 0 gives 48 / 2 / 4 = 6 keys to rank 3, rank 1 gives 16 / 2 / 4 = 2 to rank 2.
  const PackPlan packs = sliced(8, 4);
  const Schedule order = with_exchanges(packs, sliced_one_f_one_b(packs, 4, 2));
  const auto has = [&](int giver, int taker, int pack, int other, int keys) {
    return std::ranges::count(order.exchanges,
                              ContextExchange{{StageId(giver), Pass::kForward, PackId(pack)},
                                              {StageId(taker), Pass::kForward, PackId(other)},
                                              Tokens(keys)});
  };
  EXPECT_EQ(has(0, 3, 4, 1, 6), 1);
  EXPECT_EQ(has(1, 2, 3, 2, 2), 1);
  EXPECT_EQ(check_schedule(packs, order), std::vector<std::string>{});
}

TEST(ContextExchanges, LeaveWholeSequencesAlone) {
  PackPlan packs;
  for (int q = 0; q < 4; ++q)
    packs.forward.push_back({{Slice{SequenceId(q), Tokens(0), Tokens(8 - q)}}});
  packs.backward = packs.forward;
  EXPECT_TRUE(with_exchanges(packs, sliced_one_f_one_b(packs, 2, 2)).exchanges.empty());
}

struct BrokenCase {
  const char* name;
  const char* exchange;
  const char* error;
};

class BrokenExchange : public ::testing::TestWithParam<BrokenCase> {};

TEST_P(BrokenExchange, IsRefused) {
  const PackPlan packs = sliced(4, 2);
  const std::string text = schedule_to_text(sliced_one_f_one_b(packs, 2, 2));
  const Schedule order = schedule_from_text(text + GetParam().exchange, "test");
  const std::vector<std::string> errors = check_schedule(packs, order);
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors.front(), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    ContextExchanges, BrokenExchange,
    ::testing::Values(
        BrokenCase{"NoSuchAction", "0F9>1F0:1",
                   "0F9 exchanges attention, but is no F, B or I of the schedule"},
        BrokenCase{"OneRank", "0F2>0F1:1",
                   "0F2 and 0F1 exchange attention, but are not of one pass on two ranks"},
        BrokenCase{"TwoPasses", "0F2>1B0:1",
                   "0F2 and 1B0 exchange attention, but are not of one pass on two ranks"},
        BrokenCase{"TooManyKeys", "0F2>1F1:5", "0F2 gives 5 keys away, its longest prefix has 4"},
        BrokenCase{"NoKeys", "0F2>1F1:0", "0F2 gives 0 keys away, its longest prefix has 4"},
        BrokenCase{"Twice", "0F2>1F1:1,0F3>1F1:1", "1F1 is in two exchanges"},
        BrokenCase{"Circle", "0F2>1F3:1",
                   "deadlock: 0F2 waits for 1F3, with which it exchanges attention"}),
    [](const auto& tested) { return tested.param.name; });

TEST(ContextExchanges, OfMergedPacksAreRefused) {
  PackPlan packs = sliced(4, 2);
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass) pack.replicas = 2;
  Schedule order = sliced_one_f_one_b(packs, 2, 2);
  EXPECT_TRUE(
      context_exchanges({.lengths = {}, .layout = {}, .replicas = {{{}, packs}, {{}, packs}}},
                        {order, order})
          .front()
          .empty());
  order.exchanges = {{{StageId(0), Pass::kForward, PackId(1)},
                      {StageId(1), Pass::kForward, PackId(0)},
                      Tokens(1)}};
  EXPECT_EQ(check_schedule(packs, order).front(),
            "0F1 exchanges attention, but its MicroPack is merged");
}

TEST(ContextExchanges, ReadWhatTheyWrite) {
  const PackPlan packs = sliced(4, 2);
  const Schedule order = with_exchanges(packs, sliced_one_f_one_b(packs, 2, 2));
  EXPECT_EQ(schedule_from_text(schedule_to_text(order), "test"), order);
}

TEST(ContextExchanges, WithoutSenseAreRefusedWithTheirPlace) {
  const auto expect = [](const std::string& line, const std::string& error) {
    expect_invalid_input([&] { (void)schedule_from_text("0F0\n1F0\n" + line, "plan.json"); },
                         {error});
  };
  for (const char* cell : {"0F1>", "0F1>1F0", "0F1>1F0:", "0F1>1F0:x", "0F1:1>1F0", ">1F0:1"})
    expect(cell, "plan.json: line 3, cell 1");
  expect("0F1>1F0:1,1F0",
         "line 3, cell 2: \"1F0\" is no context exchange; write giver, taker and the number of "
         "keys, as in 2F5>0F7:1024");
}

}  // namespace
}  // namespace slimpack
