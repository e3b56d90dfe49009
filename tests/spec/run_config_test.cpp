#include "slimpack/spec/run_config.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "tests/spec/run_config_texts.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using run_config_texts::error_of;
using run_config_texts::kModel;
using run_config_texts::parse;
using run_config_texts::parse_more;

TEST(RunConfig, AbsentKeysHaveTheirDefaults) {
  RunConfig expected;
  expected.model.config = "/base/m.json";
  EXPECT_EQ(parse(kModel), expected);
}

constexpr std::string_view kEveryKey = R"(
adapter_rank = 16
[data]
prefix = "d/corpus"
context = 1024
long_documents = "truncate"
target_share = 0.25
step_tokens = 2048
seed = 3
[train]
steps = 7
loss = "document"
max_tokens = 9000000000
max_seconds = 1.5
dtype = "bf16"
seed = 9223372036854775807
learning_rate = 1
min_learning_rate = 0.5
warmup_steps = 0
weight_decay = 0.0
beta1 = 0.8
beta2 = 0
epsilon = 1e-6
clip_norm = 0
deterministic = false
[evaluation]
prefix = "d/held-out"
every = 50
tokens = 4096
[parallel]
pp = 4
dp = 3
tp = 2
[plan]
planner = "packed"
granularity = 64
memory_cap = "12GiB"
most_merged = 2
recompute = "mlp"
[cost]
file = "cost.json"
[hardware]
name = "mine"
linear_flops = 1e12
memory_bytes = "40GB"
ranks_per_node = 4
link_latency_us = 0
[output]
dir = "out"
log = "wandb, tensorboard"
[checkpoint]
every = 5
keep_last = 3
)";

TEST(RunConfig, EveryKeyIsRead) {
  const RunConfig config = parse_more(kEveryKey);
  RunConfig expected;
  expected.model = {.config = "/base/m.json", .adapter_rank = 16};
  expected.data = {.prefix = "/base/d/corpus",
                   .context = Tokens(1024),
                   .long_documents = LongDocumentsKind::kTruncate,
                   .target_share = 0.25,
                   .step_tokens = Tokens(2048),
                   .seed = 3};
  expected.train = {.steps = 7,
                    .max_tokens = Tokens(9'000'000'000),
                    .max_seconds = 1.5,
                    .dtype = Dtype::kBf16,
                    .loss = LossKind::kDocument,
                    .seed = INT64_MAX,
                    .learning_rate = 1.0,
                    .min_learning_rate = 0.5,
                    .warmup_steps = 0,
                    .weight_decay = 0.0,
                    .beta1 = 0.8,
                    .beta2 = 0.0,
                    .epsilon = 1e-6,
                    .clip_norm = 0.0,
                    .deterministic = false,
                    .links = {}};
  expected.evaluation = {"/base/d/held-out", 50, Tokens(4096)};
  expected.parallel = {{.pp = 4, .dp = 3, .tp = 2}};
  expected.plan = {PlannerKind::kPacked, Tokens(64), Bytes(12'884'901'888), 2, Recompute::kMlp};
  expected.plan.recompute_given = true;
  expected.cost.file = "/base/cost.json";
  expected.hardware = HardwareSpec{};
  expected.hardware->name = "mine";
  expected.hardware->linear_flops = 1e12;
  expected.hardware->memory_bytes = Bytes(40'000'000'000);
  expected.hardware->ranks_per_node = 4;
  expected.hardware->link_latency_us = 0;
  expected.output = {"/base/out", {"wandb", "tensorboard"}};
  expected.checkpoint = {.every = 5, .keep_last = 3};
  EXPECT_EQ(config, expected);
}

TEST(RunConfig, ItsTextIsReadAsTheSame) {
  RunConfig config = parse_more(kEveryKey);
  const RunConfig again = parse(run_config_to_toml(config));
  EXPECT_EQ(again, config);
  // Where no hardware is named, the text names none.
  EXPECT_FALSE(parse(run_config_to_toml(parse(kModel))).hardware.has_value());
}

TEST(RunConfig, LogsAreNamesThatAreKnown) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(parse(kModel, {"output.log=wandb"}).output.log, Names{"wandb"});
  EXPECT_EQ(parse(kModel, {"output.log=wandb,tensorboard , wandb"}).output.log,
            (Names{"wandb", "tensorboard"}));
  EXPECT_EQ(parse_more("[output]\nlog = \"wandb\"", {"output.log=\"\""}).output.log, Names{});
}

TEST(RunConfig, RecomputationIsOneOfItsNamesOrLeftToThePlanner) {
  EXPECT_EQ(parse(kModel).plan.recompute, Recompute::kElementwise);
  EXPECT_FALSE(parse(kModel).plan.recompute_given);
  EXPECT_TRUE(parse(kModel, {"plan.recompute=elementwise"}).plan.recompute_given);
  for (const Recompute recompute : all_recomputations())
    EXPECT_EQ(parse_more(fmt::format("[train]\ndevice = \"cuda\"\n[plan]\nrecompute = \"{}\"",
                                     to_string(recompute)))
                  .plan.recompute,
              recompute);
  EXPECT_EQ(parse_more("[plan]\nrecompute = \"auto\"").plan.recompute, std::nullopt);
  EXPECT_EQ(parse(kModel, {"plan.recompute=full"}).plan.recompute, Recompute::kFull);
  EXPECT_EQ(parse(kModel, {"plan.recompute=auto", "plan.recompute=nothing"}).plan.recompute,
            Recompute::kNothing);
}

TEST(RunConfig, RowsOfACpuAreNotOffloaded) {
  expect_invalid_input([] { (void)parse(kModel, {"plan.recompute=offload"}); },
                       {"plan.recompute is \"offload\"", "train.device is \"cpu\"",
                        "set train.device to \"cuda\" or plan.recompute to another policy"});
}

TEST(RunConfig, TheSolverIsOneOfItsNamesAndItsBudgetAnyTimeUpToADay) {
  EXPECT_EQ(parse(kModel).plan.solver, SolverKind::kAuto);
  EXPECT_EQ(parse(kModel).plan.backward, BackwardKind::kWhole);
  EXPECT_EQ(parse(kModel, {"plan.backward=split"}).plan.backward, BackwardKind::kSplit);
  EXPECT_EQ(parse(kModel).plan.time_budget, 0);
  for (const SolverKind solver : {SolverKind::kAuto, SolverKind::kFluid, SolverKind::kMilp})
    EXPECT_EQ(parse_more(fmt::format("[plan]\nsolver = \"{}\"", to_string(solver))).plan.solver,
              solver);
  EXPECT_EQ(parse(kModel, {"plan.time_budget=1.5"}).plan.time_budget, 1.5);
  EXPECT_EQ(parse(kModel, {"plan.time_budget=86400"}).plan.time_budget, 86'400);
}

TEST(RunConfig, PathsAreResolvedAgainstTheFilesFolder) {
  const RunConfig config = parse("[model]\nconfig = \"../m.json\"\n[data]\nprefix = \"/abs/c\"");
  EXPECT_EQ(config.model.config, "/m.json");
  EXPECT_EQ(config.data.prefix, "/abs/c");
  EXPECT_EQ(parse(kModel, {"model.config=x.json"}).model.config, "x.json");
  EXPECT_EQ(parse_more("[cost]\nfile = \"\"").cost.file, "");
}

TEST(RunConfig, OverridesWinOverTheFileAndLaterOnesOverEarlierOnes) {
  const RunConfig config = parse_more(
      "[train]\nsteps = 1\nseed = 5",
      {"train.steps=2", "train.steps = 3", "train.dtype=fp64", "output.dir=a b", "output.dir=\"q\"",
       "plan.memory_cap=1KiB", "train.learning_rate=1e-3", "hardware.peak_flops=1e12"});
  EXPECT_EQ(config.train.steps, 3);
  EXPECT_EQ(config.train.seed, 5U);
  EXPECT_EQ(config.train.dtype, Dtype::kFp64);
  EXPECT_EQ(config.output.dir, "q");
  EXPECT_EQ(config.plan.memory_cap, Bytes(1024));
  EXPECT_EQ(config.train.learning_rate, 1e-3);
  ASSERT_TRUE(config.hardware.has_value());
  EXPECT_EQ(config.hardware->peak_flops, 1e12);
}

TEST(RunConfig, OnlyAGpuMayRoundOtherwiseInEveryRunUnlessItIsSaid) {
  const auto same_bits = [](const std::string& device, const std::string& asked) {
    return parse(kModel, {"train.device=" + device, "train.deterministic=" + asked})
        .train.same_bits();
  };
  EXPECT_TRUE(parse(kModel).train.same_bits());
  EXPECT_FALSE(parse(kModel, {"train.device=cuda"}).train.same_bits());
  for (const char* device : {"cpu", "cuda"}) {
    EXPECT_TRUE(same_bits(device, "true"));
    EXPECT_FALSE(same_bits(device, "false"));
    EXPECT_EQ(same_bits(device, "\"auto\""), device == std::string("cpu"));
  }
}

TEST(RunConfig, SpeedsAreNumbersByRank) {
  const std::string two = "[parallel]\npp = 2\nspeed = [1, 0.5]";
  EXPECT_EQ(parse_more(two).parallel.speed, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(parse_more(two, {"parallel.speed=[]"}).parallel.speed, std::vector<double>{});
  EXPECT_EQ(parse(kModel, {"parallel.dp=3", "parallel.speed=[2, 1e-1, 3]"}).parallel.speed,
            (std::vector<double>{2, 0.1, 3}));
}

TEST(RunConfig, ACapOfNoneIsNoCapAndALaterOneIs) {
  const std::string none = "[plan]\nmemory_cap = \"none\"";
  EXPECT_TRUE(parse_more(none).plan.unlimited_memory);
  EXPECT_FALSE(parse_more(none).plan.memory_cap.has_value());
  const PlanConfig capped = parse_more(none, {"plan.memory_cap=1KiB"}).plan;
  EXPECT_FALSE(capped.unlimited_memory);
  EXPECT_EQ(capped.memory_cap, Bytes(1024));
  EXPECT_FALSE(parse_more("[plan]\nmemory_cap = 5", {"plan.memory_cap=none"}).plan.memory_cap);
}

TEST(RunConfig, AnOverrideIsOneValueEvenIfItHoldsLines) {
  EXPECT_EQ(parse(kModel, {"output.dir=1\ntrain.steps=2"}).output.dir, "1\ntrain.steps=2");
}

TEST(RunConfig, AnEmptyHardwareSectionAsksForTheDefaultFigures) {
  EXPECT_EQ(parse_more("[hardware]\n").hardware, HardwareSpec{});
  EXPECT_FALSE(parse(kModel).hardware.has_value());
}

TEST(RunConfig, AHardwareFileIsReadFirstAndKeysBesideItWin) {
  const TempFolder folder;
  write_file(folder.path() / "gpu.toml", "name = \"gpu\"\nlinear_flops = 5\npeak_flops = 6\n");
  // "attention_slice_us" is sorted before "file" and "linear_flops" after it.
  const std::string text = fmt::format(
      "{}[hardware]\nlinear_flops = 7\nattention_slice_us = 8\nfile = \"gpu.toml\"", kModel);
  HardwareSpec expected;
  expected.name = "gpu";
  expected.linear_flops = 7;
  expected.attention_slice_us = 8;
  expected.peak_flops = 6;
  const auto hardware = [&](const std::vector<std::string>& overrides) {
    return run_config_from_toml(text, "run.toml", overrides, folder.path()).hardware;
  };
  EXPECT_EQ(hardware({}), expected);
  // No file: the figures beside it stay.
  HardwareSpec beside;
  beside.linear_flops = 7;
  beside.attention_slice_us = 8;
  EXPECT_EQ(hardware({"hardware.file="}), beside);
  // Overrides apply one after the other: a file's figures replace all that stand.
  expected.linear_flops = 5;
  expected.attention_slice_us = HardwareSpec{}.attention_slice_us;
  expected.peak_flops = 9;
  const std::string file = (folder.path() / "gpu.toml").string();
  EXPECT_EQ(hardware({"hardware.file=" + file, "hardware.peak_flops=9"}), expected);
}

TEST(RunConfig, WhatAnOverrideReplacesIsNotLookedAt) {
  const TempFolder folder;
  write_file(folder.path() / "gpu.toml", "name = \"gpu\"\n");
  const std::string text = fmt::format("{}[hardware]\nfile = \"gone.toml\"\n", kModel);
  const auto hardware = [&](const std::vector<std::string>& overrides) {
    return run_config_from_toml(text, "run.toml", overrides, folder.path()).hardware;
  };
  expect_invalid_input([&] { (void)hardware({}); }, {"gone.toml"});
  HardwareSpec expected;
  expected.name = "gpu";
  EXPECT_EQ(hardware({"hardware.file=" + (folder.path() / "gpu.toml").string()}), expected);
  EXPECT_EQ(hardware({"hardware.file="}), HardwareSpec{});
}

TEST(RunConfig, ErrorsOfAHardwareFileNameBothFiles) {
  const TempFolder folder;
  write_file(folder.path() / "gpu.toml", "linear_flops = 0\n");
  const auto read = [&](std::string_view name) {
    (void)run_config_from_toml(fmt::format("{}[hardware]\nfile = \"{}\"", kModel, name), "run.toml",
                               {}, folder.path());
  };
  expect_invalid_input([&] { read("gpu.toml"); },
                       {"run.toml:4: hardware.file: ", "gpu.toml:1: linear_flops is 0"});
  expect_invalid_input([&] { read("none.toml"); }, {"run.toml:4: hardware.file: ", "none.toml"});
}

struct Bad {
  const char* text;
  const char* message;  ///< part of it
};

class BadConfig : public testing::TestWithParam<Bad> {};

TEST_P(BadConfig, IsRefusedWithPlaceValueAndRule) {
  run_config_texts::expect_refused(GetParam().text, GetParam().message);
}

const Bad kBad[] = {
    {"", "model.config is missing"},
    {"steps = 3", "run.toml:1: \"steps\" is not a section"},
    {"[[train]]\nsteps = 3", "not a section"},
    {"[trian]\nsteps = 3", "section \"trian\" is unknown; did you mean \"train\"?"},
    {"[zzz]",
     "known are model, data, train, evaluation, parallel, plan, cost, hardware, output, "
     "checkpoint"},
    {"[train]\nstep = 3",
     "run.toml:2: key \"step\" is unknown in [train]; did you mean \"steps\"?"},
    {"[train]\n\"a\\nb\" = 3", "\"a\\nb\" is unknown"},
    {"[train]\n\nsteps = 0", "run.toml:3: train.steps is 0, must be an integer from 1"},
    {"[train]\nsteps = 1.0", "train.steps is 1"},
    {"[train]\nsteps = \"many\"", "train.steps is \"many\", must be an integer"},
    {"[train]\nsteps = true", "train.steps is true"},
    {"[train]\nsteps = [1]", "train.steps is an array"},
    {"[train.steps]\na = 1", "train.steps is a table"},
    {"[train]\nsteps = 2020-01-01", "train.steps is a date"},
    {"[train]\nseed = -1", "train.seed is -1, must be an integer of 0 or more"},
    {"[plan]\nsolver = \"gurobi\"", "must be one of \"auto\", \"fluid\", \"milp\""},
    {"[plan]\nbackward = \"half\"",
     "plan.backward is \"half\", must be one of \"whole\", \"split\""},
    {"[plan]\ntime_budget = -1", "plan.time_budget is -1, must be a number from 0 to 86400"},
    {"[plan]\ntime_budget = 86401", "plan.time_budget is 86401"},
    {"[train]\nlearning_rate = 0", "train.learning_rate is 0, must be a number above 0"},
    {"[train]\nlearning_rate = nan", "learning_rate is nan"},
    {"[train]\nlearning_rate = inf", "learning_rate is inf"},
    {"[train]\nbeta1 = 1.0", "must be a number from 0 to below 1"},
    {"[output]\nlog = \"mlflow\"",
     "output.log is \"mlflow\", must be names of tensorboard and wandb, separated by commas"},
    {"[output]\nlog = \"wandb,\"", "must be names of tensorboard and wandb"},
    {"[output]\nlog = true", "must be names of tensorboard and wandb"},
    {"[train]\nclip_norm = -0.5", "must be a number of 0 or more"},
    {"[train]\nmax_tokens = -1", "train.max_tokens is -1, must be an integer of 0 or more"},
    {"[train]\nmax_tokens = 1.5", "train.max_tokens is 1.5, must be an integer"},
    {"[train]\nmax_seconds = -1", "train.max_seconds is -1, must be a number of 0 or more"},
    {"[train]\nmax_seconds = inf", "train.max_seconds is inf"},
    {"[evaluation]\nevery = -1", "evaluation.every is -1, must be an integer from 0"},
    {"[evaluation]\ntokens = 0", "evaluation.tokens is 0, must be an integer of 1 or more"},
    {"[evaluation]\nprefix = 3", "evaluation.prefix is 3, must be a path"},
    {"[evaluation]\nstep = 3", "key \"step\" is unknown in [evaluation]"},
    {"[model]\nconfig=\"m\"\n[evaluation]\nevery = 5",
     "evaluation.every is 5 and evaluation.prefix is not set; name a held-out dataset"},
    {"[train]\ndtype = \"fp16\"", "dtype is \"fp16\", must be one of \"fp32\", \"bf16\", \"fp64\""},
    {"[train]\ndtype = 32", "must be one of"},
    {"[plan]\nplanner = \"best\"", "must be one of \"slimpack\", \"packed\""},
    {"[plan]\nmemory_cap = \"12 apples\"", "plan.memory_cap is \"12 apples\""},
    {"[plan]\nmemory_cap = 0", "plan.memory_cap is 0, must be bytes above 0"},
    {"[plan]\nmemory_cap = \"non\"", "plan.memory_cap is \"non\""},
    {"[plan]\nmemory_cap = 1.5", "must be bytes above 0"},
    {"[parallel]\npp = 5000000000", "parallel.pp"},
    {"[parallel]\ndp = 0", "run.toml:2: parallel.dp is 0, must be an integer from 1 to 4096"},
    {"[parallel]\ndp = -1", "parallel.dp is -1"},
    {"[parallel]\ndp = 4097", "parallel.dp is 4097"},
    {"[parallel]\ndp = 2.5", "parallel.dp is 2.5"},
    {"[parallel]\ndp = \"two\"", "parallel.dp is \"two\""},
    {"[parallel]\nplacement = \"w\"",
     "parallel.placement is \"w\", must be one of \"loop\", \"v\""},
    {"[model]\nconfig = \"m\"\n[parallel]\npp = 2\nplacement = \"v\"",
     "set parallel.stages_per_rank to 2"},
    {"[model]\nconfig = \"m\"\n[parallel]\npp = 2\nstages_per_rank = 4\nplacement = \"v\"",
     "set parallel.stages_per_rank to 2"},
    {"[model]\nconfig = \"m\"\n[parallel]\nstages_per_rank = \"auto\"\nplacement = \"v\"",
     "set parallel.stages_per_rank to 2"},
    {"[model]\nconfig = \"m\"\n[parallel]\npp = 2\nstages_per_rank = 2\nplacement = "
     "\"v\"\nspread_vocabulary = true",
     "where no vocabulary is spread"},
    {"[model]\nconfig = \"m\"\n[parallel]\npp = 2\nstages_per_rank = 2\nplacement = "
     "\"v\"\nexchange_context = true",
     "where no vocabulary is spread"},
    {"[parallel]\ntp = 0", "parallel.tp is 0, must be an integer from 1 to 4096"},
    {"[parallel]\ntp = true", "parallel.tp is true"},
    {"[parallel]\nspeed = 1",
     "parallel.speed is 1, must be an array, each element a number above 0"},
    {"[parallel]\nspeed = [\"fast\"]",
     "parallel.speed is an array, must be an array, each element"},
    {"[parallel]\ndp = 2\nspeed = [1, 0]", "parallel.speed[1] is 0, must be a number above 0"},
    {"[parallel]\nspeed = [-0.5]", "parallel.speed[0] is -0.5, must be a number above 0"},
    {"[parallel]\nspeed = [inf]", "parallel.speed[0] is inf, must be a number above 0"},
    {"[model]\nconfig = \"m\"\n[parallel]\ndp = 2\nspeed = [1, 1, 1]",
     "parallel.speed has 3 entries, but pp × dp × tp is 1 × 2 × 1 = 2 ranks"},
    {"[parallel]\ncp = 2", "key \"cp\" is unknown in [parallel]"},
    {"[plan]\nmost_merged = 0", "plan.most_merged is 0, must be an integer from 1"},
    {"[plan]\nmost_merged = \"all\"", "plan.most_merged is \"all\""},
    {"[parallel]\nep = 8", "\"ep\" is unknown in [parallel]: experts are spread over the tensor"},
    {"[plan]\nmerged = 2", "key \"merged\" is unknown in [plan]"},
    {"[plan]\nrecompute = \"some\"",
     "plan.recompute is \"some\", must be one of \"nothing\", \"elementwise\", \"attention\", "
     "\"mlp\", \"full\", \"offload\", "
     "\"auto\""},
    {"[plan]\nrecompute = \"Full\"", "plan.recompute is \"Full\", must be one of"},
    {"[plan]\nrecompute = \"\"", "plan.recompute is \"\", must be one of"},
    {"[plan]\nrecompute = \"none\"", "; what was \"none\" is \"elementwise\""},
    {"[plan]\nrecompute = false", "plan.recompute is false, must be one of"},
    {"[data]\ncontext = 3000000000", "data.context"},
    {"[data]\nlong_documents = \"keep\"",
     "data.long_documents is \"keep\", must be one of \"split\", \"truncate\", \"drop\""},
    {"[model]\nconfig = \"\"", "model.config is \"\", must be a path"},
    {"[model]\nconfig = \"a\\u0000b\"", "must be a path"},
    {"[hardware]\nfile = 3", "hardware.file is 3, must be a path"},
    {"[hardware]\nlayer_overhead_us = 3", "key \"layer_overhead_us\" is unknown in [hardware]"},
    {"[hardware]\nmemory_bytes = \"80 apples\"", "hardware.memory_bytes is \"80 apples\""},
    {"[hardware]\nlinear_flops = 0", "hardware.linear_flops is 0, must be a number above 0"},
    {"[train]\nsteps = 3\nsteps = 4", "run.toml:3: not valid TOML"},
    {"[train\n", "run.toml:1: not valid TOML"},
    {"\xff\xfe", "not valid TOML"},
    {"[\n", "run.toml:1: not valid TOML"},
    {"# é\n[model]\nconfig = é", "run.toml:3: not valid TOML"},
    {"é = 1", "run.toml:1: not valid TOML"},
    {"a = 1979-05-7T\"b\xef\xbb\xbb", "run.toml:1: not valid TOML"},
    {"[model]\nconfig=\"m\"\n[train]\nlearning_rate = 1e-5\nmin_learning_rate = 3e-5",
     "train.min_learning_rate is 3e-05, above train.learning_rate, 1e-05"},
    {"[train]\ndeterministic = \"yes\"",
     "train.deterministic is \"yes\", must be true, false or \"auto\""},
    {"[train]\nsteps = 3.0", "train.steps is 3.0, must be an integer"},
    {"[train]\nsteps = 1e2", "train.steps is 1e2, must be an integer"},
    {"[train]\n  steps  =  +1_0.5E+1  # ten", "train.steps is +1_0.5E+1, must be an integer"},
    {"[parallel]\n\"pp\" = 2.00", "parallel.pp is 2.00, must be an integer"},
    {"[hardware]\nranks_per_node = 8.0", "hardware.ranks_per_node is 8.0, must be an integer"},
    {"# é\n[train]\nbeta1 = -inf", "train.beta1 is -inf, must be a number"},
    {"[hardware]\nlinear_flops = 1e-300",
     "hardware.linear_flops is 1e-300, must be a number above 0"},
    {"[hardware]\nlink_latency_us = 1e31",
     "hardware.link_latency_us is 1e31, must be a number of 0"},
    {"[hardware]\nhost_bandwidth = 1e-200",
     "hardware.host_bandwidth is 1e-200, must be a number of"},
};

INSTANTIATE_TEST_SUITE_P(RunConfig, BadConfig, testing::ValuesIn(kBad));

TEST(RunConfig, BadOverridesAreNamed) {
  const auto refused = [](const char* text) { return error_of(kModel, {text}); };
  EXPECT_EQ(refused("steps"),
            "override \"steps\": must be section.key=value, as in train.steps=100");
  EXPECT_NE(refused("steps=3").find("must be section.key=value"), std::string::npos);
  EXPECT_NE(refused("").find("must be section.key=value"), std::string::npos);
  EXPECT_NE(refused("train.stps=3").find("did you mean \"steps\"?"), std::string::npos);
  EXPECT_NE(refused("trin.steps=3").find("did you mean \"train\"?"), std::string::npos);
  EXPECT_NE(refused("train.steps=").find("train.steps is \"\""), std::string::npos);
  EXPECT_NE(refused("train.steps=abc").find("train.steps is \"abc\""), std::string::npos);
  EXPECT_NE(refused("train.steps=3.0").find("train.steps is 3.0, must"), std::string::npos);
  EXPECT_NE(refused("train.steps= 1e2 ").find("train.steps is 1e2, must"), std::string::npos);
  EXPECT_NE(refused("parallel.pp=nan").find("parallel.pp is nan, must"), std::string::npos);
}

TEST(RunConfig, TheLearningRateFallsToATenthUnlessItIsSaidWhereTo) {
  const auto least = [](const std::vector<std::string>& overrides) {
    return run_config_from_toml(kModel, "run.toml", overrides, "").train.min_learning_rate;
  };
  EXPECT_EQ(least({}), 3e-5);
  EXPECT_DOUBLE_EQ(least({"train.learning_rate=1e-5"}), 1e-6);
  EXPECT_DOUBLE_EQ(least({"train.learning_rate=2"}), 0.2);
  EXPECT_EQ(least({"train.learning_rate=1e-5", "train.min_learning_rate=0"}), 0);
}

TEST(RunConfig, TheReferenceTextParsesToTheDefaultsAndNamesEveryKey) {
  const std::string reference = run_config_reference();
  RunConfig expected;
  expected.model.config = "/base/config.json";
  expected.output.dir = "/base/runs/default";
  expected.plan.recompute_given = true;  // the reference says it
  EXPECT_EQ(parse(reference), expected);
  // With the figures of [hardware], the cap and the sources no longer commented out, these are set
  // as well.
  std::string all = reference;
  for (std::size_t at = 0; (at = all.find("\n# ", at)) != std::string::npos;) all.erase(at + 1, 2);
  expected.hardware = HardwareSpec{};
  expected.plan.memory_cap = Bytes(12'884'901'888);
  expected.data.sources = {{"/base/a", 0.3}};
  expected.evaluation.sources = {{"a", "/base/a"}};
  EXPECT_EQ(parse(all), expected);
}

TEST(RunConfig, TheExampleIsValidAndStartsAtItsFolder) {
  const std::filesystem::path root = SLIMPACK_SOURCE_DIR;
  const RunConfig demo = read_run_config(root / "examples/demo.toml", {});
  EXPECT_EQ(demo.model.config, (root / "models/demo.json").lexically_normal());
  EXPECT_EQ(demo.data.context, Tokens(8192));
  EXPECT_EQ(demo.data.step_tokens, Tokens(32768));
  EXPECT_EQ(demo.parallel.pp, 2);
  EXPECT_EQ(demo.train.steps, 20);
}

TEST(RunConfig, AMissingFileIsNamed) {
  EXPECT_THROW((void)read_run_config("/nonexistent/run.toml", {}), InvalidInput);
}

}  // namespace
}  // namespace slimpack
