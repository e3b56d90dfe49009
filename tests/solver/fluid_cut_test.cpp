#include "slimpack/solver/fluid_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

constexpr PackCost kPerToken{.per_token = 1};

SequenceLengths tokens(const std::vector<std::int64_t>& lengths) {
  SequenceLengths result;
  for (const std::int64_t n : lengths) result.emplace_back(n);
  return result;
}

std::vector<int> values(const std::vector<SequenceId>& ids) {
  std::vector<int> result;
  for (const SequenceId id : ids) result.push_back(id.value());
  return result;
}

std::vector<std::string> errors_of(const SequenceLengths& lengths, const PackPlan& packs) {
  return check_plan(StepPlan{lengths, StageLayout{{0, 1}}, {{all_sequences(lengths), packs}}});
}

/// Every MicroPack as "sequence:begin-end" joined by '+'.
std::vector<std::string> text(const std::vector<MicroPack>& packs) {
  std::vector<std::string> result;
  for (const MicroPack& pack : packs) {
    std::string line;
    for (const Slice& s : pack.slices) {
      line += fmt::format("{}{}:{}-{}", line.empty() ? "" : "+", s.sequence.value(),
                          s.begin.count(), s.end.count());
    }
    result.push_back(line);
  }
  return result;
}

double heaviest(const std::vector<MicroPack>& packs, const PackCost& cost) {
  double result = 0;
  for (const MicroPack& pack : packs) {
    double time = 0;
    for (const Slice& slice : pack.slices) time += cost(slice);
    result = std::max(result, time);
  }
  return result;
}

using Texts = std::vector<std::string>;

TEST(FluidOrder, PutsAFewShortestAheadOfTheLongest) {
  const SequenceLengths lengths = tokens({30, 10, 50, 10, 40});
  EXPECT_EQ(values(fluid_order(lengths, all_sequences(lengths), 0)),
            (std::vector<int>{2, 4, 0, 1, 3}));
  EXPECT_EQ(values(fluid_order(lengths, all_sequences(lengths), 2)),
            (std::vector<int>{1, 3, 2, 4, 0}));
  EXPECT_EQ(values(fluid_order(lengths, all_sequences(lengths), 9)),
            (std::vector<int>{1, 3, 0, 4, 2}));
  EXPECT_EQ(values(fluid_order(lengths, {SequenceId(3), SequenceId(2)}, 0)),
            (std::vector<int>{2, 3}));
}

TEST(FluidCut, CutsOneSequenceIntoEqualSlices) {
  const SequenceLengths lengths = tokens({1024});
  const PackPlan plan =
      fluid_cut(lengths, all_sequences(lengths), kPerToken, kPerToken, {.packs = 4});
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-256", "0:256-512", "0:512-768", "0:768-1024"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:768-1024", "0:512-768", "0:256-512", "0:0-256"}));
}

TEST(FluidCut, CutsLaterSlicesShorterWhenPairsCost) {
  // Pairs up to c grow as c²/2: half of 1,024's lie before 1,024/√2 = 724. On the grid of 128 that
  // is 640 (205,120 against 319,680 pairs) or 768 (295,296 against 229,504): 768 is the lighter.
  // Each pass finds it from its own end.
  const SequenceLengths lengths = tokens({1024});
  const PackCost pairs{.per_pair = 1};
  const PackPlan plan = fluid_cut(lengths, all_sequences(lengths), pairs, pairs, {.packs = 2});
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-768", "0:768-1024"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:768-1024", "0:0-768"}));
}

TEST(FluidCut, LetsForwardAndBackwardDifferWhenTheirCostsDo) {
  // Forward by tokens: cut at 512. Backward by pairs: cut at 768, as above.
  const SequenceLengths lengths = tokens({1024});
  const PackPlan plan =
      fluid_cut(lengths, all_sequences(lengths), kPerToken, {.per_pair = 1}, {.packs = 2});
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-512", "0:512-1024"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:768-1024", "0:0-768"}));
}

TEST(FluidCut, FillsAMicroPackAcrossSequences) {
  // 1,536 tokens in 3 packs of 512: the long one leaves 256 of its 768 over for the second pack.
  const SequenceLengths lengths = tokens({768, 512, 256});
  const PackPlan plan =
      fluid_cut(lengths, all_sequences(lengths), kPerToken, kPerToken, {.packs = 3});
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-512", "0:512-768+1:0-256", "1:256-512+2:0-256"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:256-768", "0:0-256+1:256-512", "1:0-256+2:0-256"}));
}

TEST(FluidCut, SymmetricBackwardKeepsTheForwardCuts) {
  // Forward has the cuts of the test above. Backward walks 0:512-768, 0:0-512, 1:256-512, 1:0-256,
  // 2:0-256 with 512 of room and two slices of a sequence never together.
  const SequenceLengths lengths = tokens({768, 512, 256});
  const PackPlan plan = fluid_cut(lengths, all_sequences(lengths), kPerToken, {.per_pair = 1},
                                  {.packs = 3, .asymmetric = false});
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-512", "0:512-768+1:0-256", "1:256-512+2:0-256"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:512-768", "0:0-512", "1:256-512", "1:0-256+2:0-256"}));
}

TEST(FluidCut, TapersLinearlyAtBothEnds) {
  // Shares ½, ¾, 1, 1, 1, 1, ¾, ½ of 6,656 / 6.5 = 1,024 tokens.
  const SequenceLengths lengths = tokens({6656});
  const PackPlan plan = fluid_cut(lengths, all_sequences(lengths), kPerToken, kPerToken,
                                  {.packs = 8, .taper_front = 2, .taper_back = 2, .taper = 0.5});
  std::vector<std::int64_t> sizes;
  for (const MicroPack& pack : plan.forward) sizes.push_back(pack.tokens().count());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{512, 768, 1024, 1024, 1024, 1024, 768, 512}));
}

TEST(FluidCut, MakesFewerMicroPacksWhenThereIsNotEnoughToCut) {
  const SequenceLengths lengths = tokens({1, 1, 300});
  const PackPlan plan =
      fluid_cut(lengths, all_sequences(lengths), kPerToken, kPerToken, {.packs = 64});
  // 300 tokens can be cut only at 128: at 256, less than a granule would be left. A 64th of 302
  // tokens holds both single ones.
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-1+1:0-1", "2:0-128", "2:128-300"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:0-1+1:0-1", "2:128-300", "2:0-128"}));
}

TEST(FluidCut, MakesThePlanOfTheWorkedExampleInTheDocumentation) {
  // docs/planner.md derives the loads of these MicroPacks; this holds its table to the program.
  // It counts the speeds of matrix products and attention that the page states, and nothing else.
  HardwareSpec speeds;
  speeds.linear_flops = 400e12;
  speeds.linear_half_rows = 0;
  speeds.attention_forward_flops = 340e12;
  speeds.attention_backward_flops = 250e12;
  speeds.attention_slice_us = speeds.attention_token_head_ns = 0;
  Costs cost = cost_from_hardware(testing::llama2_7b(), Dtype::kBf16, speeds);
  cost.kinds.front().forward.per_prefix_token = cost.kinds.front().backward.per_prefix_token = 0;
  cost.ends.embedding_forward = cost.ends.embedding_backward = cost.ends.head_backward = {};
  const StageLayout one_layer{{0, 1}};
  const PackCost forward =
      stage_cost(RecomputingCosts{cost}, one_layer, StageId(0), Pass::kForward);
  const PackCost backward =
      stage_cost(RecomputingCosts{cost}, one_layer, StageId(0), Pass::kBackward);
  const SequenceLengths lengths = tokens({24576, 6144, 1024, 256});
  const auto order = fluid_order(lengths, all_sequences(lengths), 0);
  const PackPlan plan = fluid_cut(lengths, order, forward, backward, {.packs = 4});
  EXPECT_EQ(text(plan.forward), (Texts{"0:0-9600", "0:9600-16896", "0:16896-22912",
                                       "0:22912-24576+1:0-6144+2:0-1024+3:0-256"}));
  EXPECT_EQ(text(plan.backward), (Texts{"0:19328-24576", "0:13056-19328", "0:4608-13056",
                                        "0:0-4608+1:0-6144+2:0-1024+3:0-256"}));
  EXPECT_NEAR(heaviest(plan.forward, forward), 12.041e6, 500);
  EXPECT_NEAR(heaviest(plan.forward, backward), 31.794e6, 500);
  EXPECT_NEAR(heaviest(plan.backward, backward), 29.496e6, 500);
}

TEST(FluidCut, OfNoSequencesIsEmpty) {
  EXPECT_EQ(fluid_cut({}, {}, kPerToken, kPerToken, {}), PackPlan{});
}

TEST(FluidCut, RefusesOptionsThatMakeNoSense) {
  const SequenceLengths lengths = tokens({256});
  const auto cut = [&](const FluidCutOptions& options) {
    return fluid_cut(lengths, all_sequences(lengths), kPerToken, kPerToken, options);
  };
  EXPECT_THROW((void)cut({.packs = 0}), InternalError);
  EXPECT_THROW((void)cut({.granularity = Tokens(0)}), InternalError);
  EXPECT_THROW((void)cut({.taper_front = -1}), InternalError);
  EXPECT_THROW((void)cut({.taper_back = -1}), InternalError);
  EXPECT_THROW((void)cut({.taper = 0}), InternalError);
  EXPECT_THROW((void)cut({.taper = 1.5}), InternalError);
  EXPECT_THROW((void)fluid_cut(tokens({0}), {SequenceId(0)}, kPerToken, kPerToken, {}),
               InternalError);
}

/// Lengths as they occur: many short ones, single tokens, equal ones, now and then a huge one.
SequenceLengths arbitrary_lengths(std::int64_t longest) {
  const auto length = rc::gen::weightedOneOf<std::int64_t>({
      {4, rc::gen::inRange<std::int64_t>(1, longest / 16 + 2)},
      {2, rc::gen::just<std::int64_t>(1)},
      {2, rc::gen::just<std::int64_t>(longest / 8 + 1)},
      {1, rc::gen::inRange<std::int64_t>(1, longest + 1)},
  });
  return tokens(*rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(length)));
}

/// Coefficients from 0, all of them at times; `prefix` bounds the term that cutting adds.
PackCost arbitrary_cost(int prefix) {
  const auto up_to = [](int n) { return static_cast<double>(*rc::gen::inRange(0, n + 1)); };
  return {up_to(50), up_to(5), up_to(3), up_to(prefix)};
}

FluidCutOptions arbitrary_options() {
  return {.packs = *rc::gen::inRange(1, 40),
          .granularity = Tokens(*rc::gen::element(1, 7, 16, 128)),
          .taper_front = *rc::gen::inRange(0, 12),
          .taper_back = *rc::gen::inRange(0, 12),
          .taper = *rc::gen::element(0.05, 0.25, 0.6, 1.0),
          .asymmetric = *rc::gen::arbitrary<bool>(),
          .fill = *rc::gen::arbitrary<bool>()};
}

RC_GTEST_PROP(FluidOrder, HasTheShortestAheadAndThenTheLongestFirst, ()) {
  SequenceLengths lengths;
  for (const int length : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 6)))
    lengths.emplace_back(length);
  const auto ahead = *rc::gen::inRange<std::size_t>(0, 8);
  std::vector<SequenceId> expected = all_sequences(lengths);
  std::ranges::stable_sort(expected, {}, [&](SequenceId q) { return lengths[q.index()]; });
  const auto rest = expected.begin() + static_cast<std::ptrdiff_t>(std::min(ahead, lengths.size()));
  std::sort(rest, expected.end(), [&](SequenceId a, SequenceId b) {
    return std::pair(-lengths[a.index()].count(), a) < std::pair(-lengths[b.index()].count(), b);
  });
  RC_ASSERT(fluid_order(lengths, all_sequences(lengths), static_cast<int>(ahead)) == expected);
}

RC_GTEST_PROP(FluidCut, IsAValidPlanForEveryInput, ()) {
  const SequenceLengths lengths = arbitrary_lengths(4000);
  const auto order = fluid_order(lengths, all_sequences(lengths), *rc::gen::inRange(0, 5));
  const PackCost forward = arbitrary_cost(100);
  const PackCost backward = arbitrary_cost(100);
  const FluidCutOptions options = arbitrary_options();
  const PackPlan plan = fluid_cut(lengths, order, forward, backward, options);
  const auto errors = errors_of(lengths, plan);
  RC_ASSERT(errors == std::vector<std::string>{});
  RC_ASSERT(plan.forward.size() <= static_cast<std::size_t>(options.packs));
  RC_ASSERT(!options.asymmetric || plan.backward.size() <= static_cast<std::size_t>(options.packs));
  for (const auto* packs : {&plan.forward, &plan.backward}) {
    for (const MicroPack& pack : *packs) {
      for (const Slice& s : pack.slices) {
        const Tokens length = lengths[s.sequence.index()];
        const bool on_grid = s.begin.count() % options.granularity.count() == 0 &&
                             (s.end == length || s.end.count() % options.granularity.count() == 0);
        RC_ASSERT(on_grid);
        RC_ASSERT(s.length() >= std::min(length, options.granularity));
      }
    }
  }
}

RC_GTEST_PROP(FluidCut, CutsNoSequenceBehindAnotherUnlessToFillUp, ()) {
  const SequenceLengths lengths = arbitrary_lengths(4000);
  const auto order = fluid_order(lengths, all_sequences(lengths), *rc::gen::inRange(0, 5));
  FluidCutOptions options = arbitrary_options();
  options.asymmetric = true;
  options.fill = false;
  const PackPlan plan = fluid_cut(lengths, order, arbitrary_cost(5), arbitrary_cost(5), options);
  // A slice whose sequence goes on has a MicroPack of its own.
  for (const MicroPack& pack : plan.forward)
    for (const Slice& s : pack.slices)
      RC_ASSERT(s.end == lengths[s.sequence.index()] || pack.slices.size() == 1U);
  for (const MicroPack& pack : plan.backward)
    for (const Slice& s : pack.slices) RC_ASSERT(s.begin == Tokens(0) || pack.slices.size() == 1U);
}

/// Slices that cannot be cut further, in the order in which a pass walks them.
std::vector<Slice> atoms(const SequenceLengths& lengths, const std::vector<SequenceId>& order,
                         std::int64_t granularity, Pass pass) {
  std::vector<Slice> result;
  for (const SequenceId id : order) {
    std::vector<Slice> of_sequence;
    const std::int64_t length = lengths[id.index()].count();
    std::int64_t begin = 0;
    for (; length - begin >= 2 * granularity; begin += granularity) {
      of_sequence.push_back({id, Tokens(begin), Tokens(begin + granularity)});
    }
    of_sequence.push_back({id, Tokens(begin), Tokens(length)});
    if (pass == Pass::kBackward) std::reverse(of_sequence.begin(), of_sequence.end());
    result.insert(result.end(), of_sequence.begin(), of_sequence.end());
  }
  return result;
}

/// The least heaviest of `packs` runs of consecutive atoms, those of a sequence merged, by dynamic
/// programming over every place to close a MicroPack.
double least_heaviest(const std::vector<Slice>& atoms, const PackCost& cost, int packs) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> best(atoms.size() + 1, infinity);  // of the first i atoms
  best[0] = 0;
  for (int p = 0; p < packs; ++p) {
    std::vector<double> next = best;
    for (std::size_t begin = 0; begin < atoms.size(); ++begin) {
      double closed = 0;  // sequences of this pack before the current one
      Slice open = atoms[begin];
      for (std::size_t i = begin; i < atoms.size(); ++i) {
        if (atoms[i].sequence != open.sequence) {
          closed += cost(open);
          open = atoms[i];
        }
        open.begin = std::min(open.begin, atoms[i].begin);
        open.end = std::max(open.end, atoms[i].end);
        next[i + 1] = std::min(next[i + 1], std::max(best[begin], closed + cost(open)));
      }
    }
    best = next;
  }
  return best.back();
}

RC_GTEST_PROP(FluidCut, IsAsBalancedAsAnyCutInItsOrder, ()) {
  const SequenceLengths lengths = arbitrary_lengths(400);
  RC_PRE(lengths.size() < 30U);
  const auto order = fluid_order(lengths, all_sequences(lengths), *rc::gen::inRange(0, 3));
  // Longer slices cost more however the prefix shrinks with them: one prefix token adds less than
  // one token takes away.
  PackCost forward = arbitrary_cost(0);
  forward.per_prefix_token = forward.per_token / 2;
  PackCost backward = arbitrary_cost(0);
  backward.per_prefix_token = backward.per_token / 2;
  FluidCutOptions options = arbitrary_options();
  options.granularity = Tokens(*rc::gen::element(16, 50));
  options.taper_front = 0;
  options.taper_back = 0;
  options.fill = true;
  const PackPlan plan = fluid_cut(lengths, order, forward, backward, options);
  const std::int64_t g = options.granularity.count();
  constexpr double kPrecision = 1 + 1.001e-3;  // of the search, and of rounding
  const double best_forward =
      least_heaviest(atoms(lengths, order, g, Pass::kForward), forward, options.packs);
  RC_ASSERT(heaviest(plan.forward, forward) <= best_forward * kPrecision);
  if (options.asymmetric) {
    const double best_backward =
        least_heaviest(atoms(lengths, order, g, Pass::kBackward), backward, options.packs);
    RC_ASSERT(plan.backward.size() <= static_cast<std::size_t>(options.packs));
    RC_ASSERT(heaviest(plan.backward, backward) <= best_backward * kPrecision);
  } else {
    RC_ASSERT(heaviest(plan.backward, forward) <= best_forward * kPrecision);
  }
}

RC_GTEST_PROP(FluidCut, SymmetricPassesHoldTheSameSlices, ()) {
  const SequenceLengths lengths = arbitrary_lengths(4000);
  const auto order = fluid_order(lengths, all_sequences(lengths), 0);
  FluidCutOptions options = arbitrary_options();
  options.asymmetric = false;
  const PackPlan plan = fluid_cut(lengths, order, arbitrary_cost(5), arbitrary_cost(5), options);
  std::map<std::pair<int, std::int64_t>, std::int64_t> cuts[2];
  for (const auto& [packs, ends] :
       {std::pair(&plan.forward, &cuts[0]), {&plan.backward, &cuts[1]}}) {
    for (const MicroPack& pack : *packs) {
      for (const Slice& s : pack.slices) {
        (*ends)[{s.sequence.value(), s.begin.count()}] = s.end.count();
      }
    }
  }
  RC_ASSERT(cuts[0] == cuts[1]);
}

}  // namespace
}  // namespace slimpack
