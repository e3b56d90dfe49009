#include "slimpack/job/sweep_jobs.h"

#include <gtest/gtest.h>

#include "slimpack/job/configured_job.h"
#include "slimpack/job/sweep_axes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

/// A model of four layers with figures of hardware.
class SweepJobs : public ::testing::Test {
 protected:
  SweepJobs() {
    put_file(folder_ / "model.json",
             R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 257,
  "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "hidden_act": "silu",
  "tie_word_embeddings": false})");
    put_file(run_file(), R"(
[model]
config = "model.json"
[data]
context = 2048
[parallel]
pp = 2
[plan]
granularity = 32
[hardware]
)");
  }

  [[nodiscard]] std::filesystem::path run_file() const { return folder_ / "run.toml"; }
  [[nodiscard]] std::vector<SweepJob> jobs(const std::vector<std::string>& over,
                                           const std::vector<std::string>& overrides = {}) const {
    return sweep_jobs(run_file(), overrides, sweep_axes(over));
  }
  [[nodiscard]] SweepPoint point(const SweepJob& job) const {
    return planned_point(job, step_planning(job.config, "run.toml"), {lengths_});
  }

  TempFolder folder_;
  SequenceLengths lengths_{Tokens(2048), Tokens(900), Tokens(700), Tokens(400), Tokens(333),
                           Tokens(200),  Tokens(64),  Tokens(64),  Tokens(7)};
};

TEST_F(SweepJobs, HaveTheValuesOfTheirPoints) {
  const auto all = jobs({"granularity=64,128", "parallel.pp=1,2,4"}, {"plan.granularity=16"});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[4].at, (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(all[4].config.plan.granularity, Tokens(128));
  EXPECT_EQ(all[4].config.parallel.pp, 2);
  EXPECT_EQ(all[4].search, SearchOptions());
}

TEST_F(SweepJobs, PlanTheirStepsAsPlanStepDoes) {
  for (const SweepJob& job : jobs({"granularity=16,64", "cuts=any,symmetric", "pp=1,4"})) {
    const SweepPoint found = point(job);
    EXPECT_EQ(found.at, job.at);
    const StepPlanning planning = step_planning(job.config, "run.toml");
    const StageLayout layout = balanced_layout(planning.cost, lengths_, job.config.parallel.pp);
    const PlanOutcome direct =
        plan_step({configured_job(job.config, planning.cost, layout), lengths_,
                   configured_choices(job.config, planning.cost), planning.cost});
    ASSERT_TRUE(found.figures && direct.step);
    EXPECT_EQ(found.figures->predicted.makespan, direct.step->prediction.makespan);
    EXPECT_EQ(found.figures->predicted.bubble, direct.step->prediction.bubble_ratio);
  }
}

TEST_F(SweepJobs, PlanWithChoicesOfTheSearchKept) {
  for (const SweepJob& job : jobs({"packs=2,6,20", "order=0,3"})) {
    EXPECT_EQ(job.config.plan.solver, SolverKind::kFluid);
    const StepPlanning planning = step_planning(job.config, "run.toml");
    Choices choices = planning.choices;
    const int packs = job.at[0] == 0 ? 2 : job.at[0] == 1 ? 6 : 20;
    choices.search = {.packs = packs, .short_first = job.at[1] == 0 ? 0 : 3, .baselines = false};
    const PlanOutcome direct =
        plan_step({planning.job(lengths_), lengths_, choices, planning.cost});
    const SweepPoint found = point(job);
    EXPECT_EQ(found.figures->predicted.makespan, direct.step->prediction.makespan);
    const auto most = std::max(found.figures->forward_packs, found.figures->backward_packs);
    EXPECT_LE(static_cast<int>(most), packs);
    EXPECT_GE(2 * static_cast<int>(most), packs);
  }
}

TEST_F(SweepJobs, WhatDoesNotFitIsAPointThatSaysSo) {
  const auto all = jobs({"memory_cap=1kB,none"});
  const SweepPoint tight = point(all[0]);
  EXPECT_FALSE(tight.figures);
  EXPECT_NE(tight.misfit.find("plan.memory_cap"), std::string::npos) << tight.misfit;
  EXPECT_TRUE(point(all[1]).figures);
  const auto states = jobs({"memory_bytes=1MB,1GB"});
  EXPECT_NE(point(states[0]).misfit.find("weights, gradients and optimizer need"),
            std::string::npos);
  EXPECT_TRUE(point(states[1]).figures);
}

TEST_F(SweepJobs, RefuseMoreThanAThousandPoints) {
  std::string values = "1";
  for (int value = 2; value <= 1001; ++value) values += "," + std::to_string(value);
  expect_invalid_input([&] { (void)jobs({"packs=" + values}); },
                       {"make 1001 points", "at most 1000", "give fewer"});
  const std::string hundred = values.substr(0, values.find(",101,"));
  expect_invalid_input(
      [&] {
        (void)jobs({"packs=" + hundred, "order=" + hundred});
      },
      {"10000 points"});
  EXPECT_EQ(jobs({"packs=" + hundred, "pp=1,2,4"}).size(), 300u);
}

TEST_F(SweepJobs, RefuseValuesThatAKeyDoesNotTake) {
  expect_invalid_input([&] { (void)jobs({"granularity=64,coarse"}); },
                       {"plan.granularity=coarse", "an integer from 1"});
  expect_invalid_input([&] { (void)jobs({"cuts=asymmetric"}); }, {"\"any\", \"symmetric\""});
  expect_invalid_input(
      [&] {
        (void)jobs({"packs=2", "planner=packed"});
      },
      {"--over packs: plan.planner is packed", "set it to slimpack"});
}

}  // namespace
}  // namespace slimpack
