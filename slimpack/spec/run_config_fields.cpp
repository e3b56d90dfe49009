#include "slimpack/spec/run_config_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/spec/source_tables.h"

namespace slimpack {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxStages = 4096;
constexpr std::int64_t kMaxSteps = 1'000'000'000;
constexpr std::int64_t kMaxKept = 1'000'000;
constexpr std::int64_t kFewestBytes = 1000;  ///< of a memory cap that is a bare number

struct Name {
  std::string_view section;
  std::string_view key;
  std::string_view about;
};

constexpr RealRule kFraction{"a number from 0 to below 1",
                             [](double x) { return x >= 0 && x < 1; }};

constexpr RealRule kShare{"a number from 0 to 1", [](double x) { return x >= 0 && x <= 1; }};

constexpr RealRule kTimeBudget{"a number from 0 to 86400",
                               [](double x) { return x >= 0 && x <= 86'400; }};

std::string assignment(const Name& name, const auto& value) {
  return fmt::format("{} = {}", name.key, value);
}

/// `Owner` is the section or a base of it.
template <class S, class Owner, class T>
ConfigField integer(Name name, S RunConfig::*section, T Owner::*member, std::int64_t low,
                    std::int64_t high) {
  const std::string rule = high == kUnbounded ? fmt::format("an integer of {} or more", low)
                                              : fmt::format("an integer from {} to {}", low, high);
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    config.*section.*member = static_cast<T>(read_integer(entry, low, high, rule));
  };
  const auto print = [=](const RunConfig& config) {
    if constexpr (std::same_as<T, Tokens>)
      return assignment(name, (config.*section.*member).count());
    else
      return assignment(name, config.*section.*member);
  };
  return {name.section, name.key, name.about, rule, assign, print};
}

template <class S>
ConfigField real(Name name, S RunConfig::*section, double S::*member, RealRule rule) {
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    config.*section.*member = read_real(entry, rule);
  };
  const auto print = [=](const RunConfig& config) {
    return assignment(name, config.*section.*member);
  };
  return {name.section, name.key, name.about, std::string(rule.text), assign, print};
}

template <class S>
ConfigField path(Name name, S RunConfig::*section, fs::path S::*member, bool may_be_empty) {
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    config.*section.*member = read_path(entry, may_be_empty);
  };
  const auto print = [=](const RunConfig& config) {
    const fs::path& value = config.*section.*member;
    return assignment(name, fmt::format("\"{}\"", value.string()));
  };
  return {name.section, name.key, name.about, std::string(path_rule(may_be_empty)), assign, print};
}

/// The path of a file of this kind, or the name of a shipped one. If the default is empty, the
/// reference text shows `example`.
template <class S>
ConfigField shipped(Name name, S RunConfig::*section, fs::path S::*member, const Shipped& kind,
                    bool may_be_empty, std::string_view example = "") {
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    config.*section.*member = read_shipped(entry, may_be_empty, kind);
  };
  const auto print = [=](const RunConfig& config) {
    const fs::path& value = config.*section.*member;
    return assignment(name, fmt::format("\"{}\"", value.empty() ? example : value.string()));
  };
  return {name.section, name.key, name.about, std::string(path_rule(may_be_empty)), assign, print};
}

template <class S, class Owner>
ConfigField flag(Name name, S RunConfig::*section, bool Owner::*member) {
  const std::string rule = "true or false";
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* value = std::get_if<bool>(&entry.value);
    if (value == nullptr) refuse(entry, rule);
    config.*section.*member = *value;
  };
  const auto print = [=](const RunConfig& config) {
    return fmt::format("{} = {}", name.key, config.*section.*member);
  };
  return {name.section, name.key, name.about, rule, assign, print};
}

/// An enumeration written as the text that to_string() gives.
template <class S, class E, class Owner, std::size_t N>
ConfigField choice(Name name, S RunConfig::*section, E Owner::*member, std::array<E, N> values) {
  std::vector<std::string> texts;
  for (const E value : values) texts.push_back(fmt::format("\"{}\"", to_string(value)));
  const std::string rule = fmt::format("one of {}", fmt::join(texts, ", "));
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    for (const E value : values)
      if (text != nullptr && *text == to_string(value)) {
        config.*section.*member = value;
        return;
      }
    refuse(entry, rule);
  };
  const auto print = [=](const RunConfig& config) {
    return assignment(name, fmt::format("\"{}\"", to_string(config.*section.*member)));
  };
  return {name.section, name.key, name.about, rule, assign, print};
}

ConfigField recompute() {
  const std::string rule = fmt::format("one of {}, \"auto\"", kRecomputeNames);
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text != nullptr && *text == "none")
      refuse(entry, rule + "; what was \"none\" is \"elementwise\"");
    if (text == nullptr || (*text != "auto" && !recompute_from(*text))) refuse(entry, rule);
    config.plan.recompute = recompute_from(*text);
    config.plan.recompute_given = true;
  };
  const auto print = [](const RunConfig& config) {
    return fmt::format("recompute = \"{}\"",
                       config.plan.recompute ? to_string(*config.plan.recompute) : "auto");
  };
  return {"plan",
          "recompute",
          "computed again in backward, or offloaded; auto = what is fastest, by layer",
          rule,
          assign,
          print};
}

ConfigField memory_cap() {
  const std::string rule = fmt::format("{}, or \"none\"", kBytesRule);
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    config.plan.unlimited_memory = text != nullptr && *text == "none";
    config.plan.memory_cap =
        config.plan.unlimited_memory ? std::nullopt : std::optional(read_bytes(entry));
    const auto* count = std::get_if<std::int64_t>(&entry.value);
    // A cap of one byte says on purpose that nothing fits.
    if (count != nullptr && *count > 1 && *count < kFewestBytes)
      invalid_input("{} is {} bytes, less than any activation takes; give the unit, as in \"{}GB\"",
                    entry.where, *count, *count);
  };
  const auto print = [](const RunConfig& config) {
    if (config.plan.unlimited_memory) return std::string("memory_cap = \"none\"");
    return config.plan.memory_cap ? fmt::format("memory_cap = {}", config.plan.memory_cap->count())
                                  : std::string("# memory_cap = \"12GiB\"");
  };
  return {
      "plan", "memory_cap", "activations per rank; absent = what its memory leaves; none = no cap",
      rule,   assign,       print};
}

ConfigField most_merged() {
  const std::string rule = fmt::format("an integer from 1 to {}, or \"auto\"", kMaxStages);
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    config.plan.most_merged = std::nullopt;
    if (text != nullptr && *text == "auto") return;
    config.plan.most_merged = static_cast<std::int32_t>(read_integer(entry, 1, kMaxStages, rule));
  };
  const auto print = [](const RunConfig& config) {
    return config.plan.most_merged ? fmt::format("most_merged = {}", *config.plan.most_merged)
                                   : std::string("most_merged = \"auto\"");
  };
  return {"plan",
          "most_merged",
          "replicas that may share one sequence; 1 = none, auto = as many as pay",
          rule,
          assign,
          print};
}

ConfigField stages_per_rank() {
  const std::string rule = fmt::format("an integer from 1 to {}, or \"auto\"", kMaxStages);
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    config.parallel.chooses_stages = text != nullptr && *text == "auto";
    config.parallel.stages_per_rank =
        config.parallel.chooses_stages
            ? 1
            : static_cast<std::int32_t>(read_integer(entry, 1, kMaxStages, rule));
  };
  const auto print = [](const RunConfig& config) {
    return config.parallel.chooses_stages
               ? std::string("stages_per_rank = \"auto\"")
               : fmt::format("stages_per_rank = {}", config.parallel.stages_per_rank);
  };
  return {"parallel",
          "stages_per_rank",
          "stages of a pipeline rank, interleaved; auto = as suits the step",
          rule,
          assign,
          print};
}

constexpr std::string_view kFlagOrAuto = "true, false or \"auto\"";

/// nullopt = "auto".
std::optional<bool> read_flag_or_auto(const ConfigEntry& entry) {
  if (const auto* flag = std::get_if<bool>(&entry.value)) return *flag;
  const auto* text = std::get_if<std::string>(&entry.value);
  if (text == nullptr || *text != "auto") refuse(entry, std::string(kFlagOrAuto));
  return std::nullopt;
}

ConfigField spread_vocabulary() {
  const auto assign = [](RunConfig& config, const ConfigEntry& entry) {
    const std::optional<bool> flag = read_flag_or_auto(entry);
    config.parallel.chooses_vocabulary = !flag;
    config.parallel.spread_vocabulary = flag.value_or(false);
  };
  const auto print = [](const RunConfig& config) {
    return fmt::format("spread_vocabulary = {}", config.parallel.chooses_vocabulary  ? "\"auto\""
                                                 : config.parallel.spread_vocabulary ? "true"
                                                                                     : "false");
  };
  return {"parallel",
          "spread_vocabulary",
          "embedding and head on all pipeline ranks, each a part; auto = as suits the step",
          std::string(kFlagOrAuto),
          assign,
          print};
}

ConfigField speed() {
  const std::string rule = fmt::format("an array, each element {}", kAboveZero.text);
  const auto assign = [](RunConfig& config, const ConfigEntry& entry) {
    config.parallel.speed = read_reals(entry, kAboveZero);
  };
  const auto print = [](const RunConfig& config) {
    return fmt::format("speed = [{}]", fmt::join(config.parallel.speed, ", "));
  };
  return {
      "parallel",
      "speed",
      "of each rank, replica by replica, pipeline rank by rank; 1 = as the costs say; [] = all 1",
      rule,
      assign,
      print};
}

ConfigField deterministic() {
  const auto assign = [](RunConfig& config, const ConfigEntry& entry) {
    config.train.deterministic = read_flag_or_auto(entry);
  };
  const auto print = [](const RunConfig& config) -> std::string {
    const std::optional<bool> given = config.train.deterministic;
    return given ? fmt::format("deterministic = {}", *given) : "deterministic = \"auto\"";
  };
  return {"train",
          "deterministic",
          "the same bits in every run; on a GPU attention's backward is slower then, and auto = "
          "false",
          std::string(kFlagOrAuto),
          assign,
          print};
}

std::vector<ConfigField> train_fields() {
  using R = RunConfig;
  using T = TrainConfig;
  return {
      integer({"train", "steps", "optimizer steps"}, &R::train, &T::steps, 1, kMaxSteps),
      integer({"train", "max_tokens", "the run ends with the step that reaches them; 0 = no limit"},
              &R::train, &T::max_tokens, 0, kUnbounded),
      real({"train", "max_seconds", "likewise, counted from this start; 0 = no limit"}, &R::train,
           &T::max_seconds, kNotNegative),
      choice({"train", "dtype", "bf16 keeps fp32 master weights; fp64 is for checks"}, &R::train,
             &T::dtype, std::array{Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}),
      choice({"train", "loss", "mean over targets, or over documents of their targets' means"},
             &R::train, &T::loss, std::array{LossKind::kToken, LossKind::kDocument}),
      integer({"train", "seed", "initial weights"}, &R::train, &T::seed, 0, kUnbounded),
      real({"train", "learning_rate", "after warm-up"}, &R::train, &T::learning_rate, kAboveZero),
      real({"train", "min_learning_rate",
            "at the end of the cosine; absent = a tenth of learning_rate"},
           &R::train, &T::min_learning_rate, kNotNegative),
      integer({"train", "warmup_steps", "linear from 0"}, &R::train, &T::warmup_steps, 0,
              kMaxSteps),
      real({"train", "weight_decay", "matrices only"}, &R::train, &T::weight_decay, kNotNegative),
      real({"train", "beta1", "Adam's mean"}, &R::train, &T::beta1, kFraction),
      real({"train", "beta2", "Adam's variance"}, &R::train, &T::beta2, kFraction),
      real({"train", "epsilon", "Adam's divisor"}, &R::train, &T::epsilon, kAboveZero),
      real({"train", "clip_norm", "global gradient norm; 0 = no clipping"}, &R::train,
           &T::clip_norm, kNotNegative),
      choice({"train", "clock", "virtual: times as if each rank had a core of its own"}, &R::train,
             &T::clock, std::array{ClockKind::kWall, ClockKind::kVirtual}),
      choice({"train", "device", "cuda: one GPU for each process"}, &R::train, &T::device,
             std::array{DeviceKind::kCpu, DeviceKind::kCuda}),
      deterministic(),
      shipped({"train", "links", "hardware file whose links slow messages, in virtual time"},
              &R::train, &T::links, kShippedHardware, true),
  };
}

std::vector<ConfigField> evaluation_fields() {
  using R = RunConfig;
  using E = EvaluationConfig;
  return {
      path({"evaluation", "prefix", "held-out dataset PREFIX.bin and PREFIX.idx"}, &R::evaluation,
           &E::prefix, true),
      evaluation_sources_field(),
      integer({"evaluation", "every", "steps, also before the first and after the last; 0 = never"},
              &R::evaluation, &E::every, 0, kMaxSteps),
      integer({"evaluation", "tokens", "of each set's first documents, at most"}, &R::evaluation,
              &E::tokens, 1, kUnbounded),
  };
}

std::vector<ConfigField> parallel_fields() {
  using R = RunConfig;
  using P = ParallelConfig;
  return {
      integer({"parallel", "pp", "pipeline ranks"}, &R::parallel, &P::pp, 1, kMaxStages),
      integer({"parallel", "dp", "replicas of the pipeline"}, &R::parallel, &P::dp, 1, kMaxStages),
      integer({"parallel", "tp", "tensor-parallel ranks of a pipeline rank"}, &R::parallel, &P::tp,
              1, kMaxStages),
      stages_per_rank(),
      choice({"parallel", "placement",
              "of stages on ranks: loop = around, v = two a rank, there and back (ZB-V)"},
             &R::parallel, &P::placement, kPlacementStyles),
      spread_vocabulary(),
      flag({"parallel", "exchange_context",
            "pipeline ranks may run parts of each other's attention, where it pays"},
           &R::parallel, &P::exchange_context),
      choice({"parallel", "cp_comm_type",
              "between replicas that share documents; direct = what has fewer bytes"},
             &R::parallel, &P::cp_comm_type, kCpCommTypes),
      flag({"parallel", "cp_route", "their transfers between nodes use all network cards"},
           &R::parallel, &P::cp_route),
      integer({"parallel", "zero",
               "what replicas share out: 1 = optimizer, 2 = gradients, too, 3 = weights, too"},
              &R::parallel, &P::zero, 1, 3),
      flag({"parallel", "offload_optimizer",
            "the optimizer's states wait in host memory (slimpack.torch.pipeline)"},
           &R::parallel, &P::offload_optimizer),
      flag({"parallel", "shard_replicas",
            "replicas share weights and optimizer out between steps (slimpack.torch.pipeline)"},
           &R::parallel, &P::shard_replicas),
      real({"parallel", "timeout", "seconds to wait for ranks in other processes"}, &R::parallel,
           &P::timeout, kAboveZero),
      speed(),
      flag({"parallel", "follow_speed",
            "plans follow the ranks' measured speeds; a run then repeats only to rounding"},
           &R::parallel, &P::follow_speed),
  };
}

std::vector<ConfigField> plan_fields() {
  using R = RunConfig;
  using P = PlanConfig;
  return {
      choice({"plan", "planner",
              "slimpack, or that of another system (docs/baselines.md): packed = whole documents"},
             &R::plan, &P::planner,
             std::array{PlannerKind::kSlimpack, PlannerKind::kPacked, PlannerKind::kSlimpipe,
                        PlannerKind::kZeppelin, PlannerKind::kContextParallel,
                        PlannerKind::kTokenBalanced}),
      integer({"plan", "granularity", "the search cuts at multiples of this many tokens"}, &R::plan,
              &P::granularity, 1, kMaxTokens),
      memory_cap(),
      most_merged(),
      recompute(),
      choice({"plan", "backward", "split: weight gradients may wait"}, &R::plan, &P::backward,
             std::array{BackwardKind::kWhole, BackwardKind::kSplit}),
      choice({"plan", "cuts", "symmetric: backward runs the MicroPacks of forward"}, &R::plan,
             &P::cuts, std::array{CutsKind::kAny, CutsKind::kSymmetric}),
      choice({"plan", "solver", "milp also solves programs on coarse grids"}, &R::plan, &P::solver,
             std::array{SolverKind::kAuto, SolverKind::kFluid, SolverKind::kMilp}),
      real({"plan", "time_budget", "seconds to look for shorter steps; 0 = none"}, &R::plan,
           &P::time_budget, kTimeBudget),
  };
}

std::vector<ConfigField> data_fields() {
  using R = RunConfig;
  using D = DataConfig;
  return {
      path({"data", "prefix", "dataset PREFIX.bin and PREFIX.idx"}, &R::data, &D::prefix, true),
      data_sources_field(),
      integer({"data", "context", "a sequence has at most this many tokens"}, &R::data, &D::context,
              1, kMaxTokens),
      choice({"data", "long_documents",
              "beyond the context: split = into sequences of their own, drop = left out"},
             &R::data, &D::long_documents, kLongDocumentsKinds),
      real({"data", "target_share",
            "of tokens that the loss counts, for plans; 0 = as masks say, all without"},
           &R::data, &D::target_share, kShare),
      integer({"data", "step_tokens", "sequences are drawn until this many tokens are reached"},
              &R::data, &D::step_tokens, 1, kMaxTokens),
      integer({"data", "seed", "order of the sequences"}, &R::data, &D::seed, 0, kUnbounded),
  };
}

/// Names of logs, separated by commas.
ConfigField log_names() {
  const std::string rule =
      fmt::format("names of {}, separated by commas, or \"\"", fmt::join(kLogNames, " and "));
  const auto assign = [=](RunConfig& config, const ConfigEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr) refuse(entry, rule);
    std::vector<std::string>& log = config.output.log;
    log.clear();
    for (std::size_t begin = 0; !text->empty() && begin <= text->size();) {
      const std::size_t end = std::min(text->find(',', begin), text->size());
      std::string name = text->substr(begin, end - begin);
      std::erase(name, ' ');
      begin = end + 1;
      if (std::ranges::find(kLogNames, name) == kLogNames.end()) refuse(entry, rule);
      if (std::ranges::find(log, name) == log.end()) log.push_back(std::move(name));
    }
  };
  const auto print = [](const RunConfig& config) {
    return fmt::format("log = \"{}\"", fmt::join(config.output.log, ", "));
  };
  return {"output", "log",  "programs that show the metrics while the run goes on",
          rule,     assign, print};
}

std::vector<ConfigField> output_fields() {
  using R = RunConfig;
  return {
      path({"output", "dir", "checkpoints, logs and traces"}, &R::output, &OutputConfig::dir,
           false),
      log_names(),
      integer({"checkpoint", "every", "steps; 0 = when the run ends or is stopped"}, &R::checkpoint,
              &CheckpointConfig::every, 0, kMaxSteps),
      integer({"checkpoint", "keep_last", "older checkpoints are removed"}, &R::checkpoint,
              &CheckpointConfig::keep_last, 1, kMaxKept),
  };
}

std::vector<ConfigField> all_fields() {
  using R = RunConfig;
  std::vector<ConfigField> fields{
      shipped({"model", "config", "Hugging Face config.json or a shipped name; required"},
              &R::model, &ModelConfig::config, kShippedModels, false, "config.json"),
      integer({"model", "adapter_rank",
               "of LoRA on all linear maps of a frozen model, for plans; 0 = all weights train"},
              &R::model, &ModelConfig::adapter_rank, 0, kMaxWidth)};
  const auto append = [&](std::vector<ConfigField> section) {
    std::ranges::move(section, std::back_inserter(fields));
  };
  append(data_fields());
  append(train_fields());
  append(evaluation_fields());
  append(parallel_fields());
  append(plan_fields());
  fields.push_back(path({"cost", "file", "written by slimpack profile; \"\" = measure at start"},
                        &R::cost, &CostConfig::file, true));
  append(hardware_config_fields());
  append(output_fields());
  return fields;
}

}  // namespace

std::span<const ConfigField> config_fields() {
  static const std::vector<ConfigField> fields = all_fields();
  return fields;
}

}  // namespace slimpack
