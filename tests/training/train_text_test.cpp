// The text of a training run, at 80 and 120 columns. Times are given here, so that the texts stay.
#include <gtest/gtest.h>

#include "slimpack/base/table.h"
#include "slimpack/run/step_figures.h"
#include "slimpack/training/run_summary.h"

namespace slimpack {
namespace {

StepFigures step_of(std::int64_t number, double loss, std::int64_t milliseconds) {
  StepFigures f;
  f.step = number;
  f.loss = loss;
  f.documents = 8;
  f.sequences = 9;
  f.tokens = Tokens(36'800);
  f.targets = 36'791;  // all but the first token of each sequence
  f.step_time = Nanos(milliseconds * 1'000'000);
  f.predicted_time = Nanos(4'300'000'000);
  f.bubble = 0.037;
  f.predicted_bubble = 0.032;
  f.peak_activation = {Bytes(200 << 20), Bytes(180 << 20)};
  f.predicted_peak_activation = {Bytes(201 << 20), Bytes(181 << 20)};
  f.planning_time = Nanos(21'000'000);
  f.planning_wait = Nanos(0);
  return f;
}

TEST(StepLine, HasWhatFits) {
  // 36,800 tokens in 4.6 s are 8.0 k a second; 2 of 20 steps in 9.6 s leave 18 · 4.8 s = 86.4 s.
  const StepFigures f = step_of(2, 5.23391, 4600);
  const auto line = [&](int columns) {
    return step_line(f, {0, 20, Nanos(9'600'000'000)}, columns);
  };
  EXPECT_EQ(line(80), "step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  bubble 3.7%");
  EXPECT_EQ(line(120),
            "step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  bubble 3.7% (predicted 3.2%)  "
            "peak 200 MiB  36.8 k tok in 8 docs");
  EXPECT_EQ(line(kAnyColumns), line(120));
}

TEST(StepLine, HasMfuWhereThePeakIsKnownAndTargetsWhereAMaskLeavesSomeOut) {
  StepFigures f = step_of(2, 5.23391, 4600);
  f.mfu = 0.412;
  f.targets = 12'100;
  const auto line = [&](int columns) {
    return step_line(f, {0, 20, Nanos(9'600'000'000)}, columns);
  };
  EXPECT_EQ(line(80),
            "step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  MFU 41.2%  bubble 3.7%");
  EXPECT_EQ(line(kAnyColumns),
            "step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  MFU 41.2%  bubble 3.7% "
            "(predicted 3.2%)  peak 200 MiB  36.8 k tok (12.1 k targets) in 8 docs");
  f.mfu = 0.0009;  // of a CPU with the figures of a GPU
  EXPECT_EQ(line(80), "step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  bubble 3.7%");
}

TEST(StepLine, HasWordsThatAreCounted) {
  StepFigures f = step_of(2, 5.23391, 4600);
  f.documents = 1;
  EXPECT_TRUE(step_line(f, {0, 20, Nanos(9'600'000'000)}, kAnyColumns).ends_with("in 1 doc"));
}

TEST(StepLine, TellsAWaitForThePlanFromAMillisecondOn) {
  StepFigures f = step_of(2, 5.23391, 4600);
  const auto line = [&] { return step_line(f, {0, 20, Nanos(9'600'000'000)}, kAnyColumns); };
  f.planning_wait = Nanos(999'999);
  EXPECT_TRUE(line().ends_with("36.8 k tok in 8 docs"));
  f.planning_wait = Nanos(1'000'000);
  EXPECT_TRUE(line().ends_with("36.8 k tok in 8 docs  waited 1.0 ms for the plan"));
}

TEST(StepLine, OfTheLastStepSaysHowLongAllTook) {
  // Ten steps were done before this start, which took 46 s for the other ten.
  EXPECT_EQ(step_line(step_of(20, 3.7, 4600), {10, 20, Nanos(46'000'000'000)}, 60),
            "step 20/20  loss 3.7000  took 46.0 s  8.0 k tok/s");
}

RunSummary two_steps() {
  RunSummary summary;
  summary.steps = {step_of(1, 5.5, 4500), step_of(2, 3.7, 4600)};
  summary.steps[0].planning_wait = Nanos(2'000'000);
  summary.steps[1].planning_wait = Nanos(1'000'000);
  summary.evaluations = {{0, {}}, {2, {}}};
  summary.evaluations[0].result.loss = 5.6;
  summary.evaluations[1].result.loss = 3.9;
  summary.compared = {ClockKind::kVirtual,
                      {"slimpack", {Nanos(4'500'000'000)}, {0.037}, 0.032, Bytes(200 << 20)},
                      {"packed", {Nanos(5'490'000'000)}, {0.21}, 0.22, Bytes(206 << 20)}};
  summary.written = {"runs/demo/metrics.jsonl"};
  return summary;
}

constexpr const char* kAt80 = R"(
loss 5.5000 → 3.7000 in 2 steps
evaluation loss 5.6000 → 3.9000

              step  predicted  bubble  predicted  peak activations  tokens/s
───────────  ─────  ─────────  ──────  ─────────  ────────────────  ────────
median step  4.5 s      4.3 s    3.7%       3.2%           200 MiB     8.2 k

                         bubble      spread   step     spread  peak activations
───────────────────────  ──────  ──────────  ─────  ─────────  ────────────────
last step again, sliced    3.7%    3.7–3.7%  4.5 s  4.5–4.5 s           200 MiB
last step again, packed   21.0%  21.0–21.0%  5.5 s  5.5–5.5 s           206 MiB
medians of 1 run each, by turns, in virtual time (a core for every rank)

ranks wait 3.7% of the step sliced, 21.0% packed
sliced is 1.22 × as fast as fixed packing + 1F1B on these documents

planning took 42.0 ms, of which training waited 3.0 ms (2.0 ms of it for the
first step)

written:
  runs/demo/metrics.jsonl
)";

constexpr const char* kAt120 = R"(
loss 5.5000 → 3.7000 in 2 steps
evaluation loss 5.6000 → 3.9000

              step  predicted  bubble  predicted  peak activations  predicted  tokens/s
───────────  ─────  ─────────  ──────  ─────────  ────────────────  ─────────  ────────
median step  4.5 s      4.3 s    3.7%       3.2%           200 MiB    201 MiB     8.2 k

                         bubble      spread  predicted   step     spread  peak activations  tokens/s
───────────────────────  ──────  ──────────  ─────────  ─────  ─────────  ────────────────  ────────
last step again, sliced    3.7%    3.7–3.7%       3.2%  4.5 s  4.5–4.5 s           200 MiB     8.2 k
last step again, packed   21.0%  21.0–21.0%      22.0%  5.5 s  5.5–5.5 s           206 MiB     6.7 k
medians of 1 run each, by turns, in virtual time (a core for every rank)

ranks wait 3.7% of the step sliced, 21.0% packed
sliced is 1.22 × as fast as fixed packing + 1F1B on these documents

planning took 42.0 ms, of which training waited 3.0 ms (2.0 ms of it for the first step)

written:
  runs/demo/metrics.jsonl
)";

TEST(RunSummary, OfAStepThatNeverWaitedForItsPlanHasNoTimesOfNothing) {
  RunSummary summary;
  summary.steps = {step_of(1, 5.5, 4500)};
  const std::string text = summary_text(summary, kAnyColumns);
  EXPECT_NE(text.find("planning took 21.0 ms, and training never waited for it\n"),
            std::string::npos);
  EXPECT_NE(text.find(" in 1 step\n"), std::string::npos);
  EXPECT_EQ(text.find("by turns"), std::string::npos);  // nothing was compared
}

TEST(RunSummary, HasTheFirstAndTheLastLossOfEachHeldOutSet) {
  RunSummary summary = two_steps();
  summary.evaluations = {{0, {.loss = 5, .name = "a"}},
                         {0, {.loss = 4, .name = "b"}},
                         {2, {.loss = 3, .name = "a"}},
                         {2, {.loss = 2, .name = "b"}}};
  EXPECT_NE(summary_text(summary, 80)
                .find("\nevaluation loss of a 5.0000 → 3.0000\nevaluation loss of b 4.0000 → "
                      "2.0000\n\n"),
            std::string::npos);
}

TEST(RunSummary, FitsNarrowAndWideTerminals) {
  EXPECT_EQ(summary_text(two_steps(), 80), kAt80);
  EXPECT_EQ(summary_text(two_steps(), 120), kAt120);
}

}  // namespace
}  // namespace slimpack
