// Run configuration: one TOML file, plus overrides from the command line.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/long_documents.h"
#include "slimpack/base/units.h"
#include "slimpack/spec/context_parallel.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/placement_style.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

enum class PlannerKind : std::uint8_t {
  kSlimpack,  ///< sliced, asymmetric MicroPacks under the modified 1F1B
  kPacked,    ///< whole documents in context-sized packs under plain 1F1B, as most users run today
  kSlimpipe,  ///< slices of equal tokens under interleaved 1F1B (baselines/baseline.h)
  kZeppelin,  ///< whole documents, each on a rank, a node or several nodes by its length (likewise)
  kContextParallel,  ///< whole documents, each on as many replicas as it needs (likewise)
  kTokenBalanced,    ///< packs of equal tokens, each shared by as many replicas (likewise)
};
[[nodiscard]] std::string_view to_string(PlannerKind kind);

/// The solver with which the planner cuts and balances. No kind is worse than kFluid
/// (docs/solver.md).
enum class SolverKind : std::uint8_t {
  kAuto,   ///< kMilp if the step is so small that it takes only a moment, else kFluid
  kFluid,  ///< fast and good: fluid cuts, and local search over their settings
  kMilp,   ///< as kFluid, and mixed-integer programs on coarse grids
};
[[nodiscard]] std::string_view to_string(SolverKind kind);

/// How backward runs.
enum class BackwardKind : std::uint8_t {
  kWhole,
  kSplit,  ///< weight gradients may wait (weight-gradient deferral, zero bubble)
};
[[nodiscard]] std::string_view to_string(BackwardKind kind);

/// The MicroPacks that the backward pass may have.
enum class CutsKind : std::uint8_t {
  kAny,
  kSymmetric,  ///< those of the forward pass, in an order of their own
};
[[nodiscard]] std::string_view to_string(CutsKind kind);

/// The clock that measures a training run's times (docs/ranks.md).
enum class ClockKind : std::uint8_t {
  kWall,
  kVirtual,  ///< processor time of each rank, as if it had a core of its own
};
[[nodiscard]] std::string_view to_string(ClockKind kind);

/// How the losses of a step's targets become one loss.
enum class LossKind : std::uint8_t {
  kToken,     ///< their mean
  kDocument,  ///< the mean over sequences with a target of the means of their targets
};
[[nodiscard]] std::string_view to_string(LossKind kind);

struct ModelConfig {
  std::filesystem::path config;  ///< Hugging Face config.json
  /// Plans are for adapters (LoRA) of this rank on every linear map of the layers, and a frozen
  /// model; 0 = all weights are trained, as PackFlow does.
  std::int64_t adapter_rank = 0;

  bool operator==(const ModelConfig&) const = default;
};

/// A dataset of a mixture. Either all sources of a run have a weight, or none has one.
struct DataSource {
  std::filesystem::path prefix;
  std::optional<double> weight = {};  ///< its share of the trained tokens, beside other weights
  double epochs = 1;  ///< passes over it in an epoch of the mixture; means nothing beside a weight

  bool operator==(const DataSource&) const = default;
};

struct DataConfig {
  std::filesystem::path prefix;  ///< dataset PREFIX.bin and PREFIX.idx
  Tokens context{4096};          ///< a sequence has at most this many tokens
  LongDocumentsKind long_documents = LongDocumentsKind::kSplit;
  /// Share of the tokens behind another one that the loss counts, for plans that training does not
  /// ask for; 0 = as the masks of the datasets say, and all without a mask.
  double target_share = 0;
  Tokens step_tokens{32768};       ///< whole sequences are drawn until this many tokens are reached
  bool step_tokens_asked = false;  ///< an override sets step_tokens, and not the file alone
  std::uint64_t seed = 0;          ///< order of the sequences
  std::vector<DataSource> sources = {};  ///< a mixture, in place of prefix

  /// The datasets that train: the sources, or that of the prefix; empty if neither is set.
  [[nodiscard]] std::vector<DataSource> datasets() const {
    if (!sources.empty() || prefix.empty()) return sources;
    return {{.prefix = prefix}};
  }
  bool operator==(const DataConfig&) const = default;
};

struct TrainConfig {
  std::int64_t steps = 100;
  Tokens max_tokens{0};    ///< of all starts together; 0 = no limit
  double max_seconds = 0;  ///< of this start; 0 = no limit
  Dtype dtype = Dtype::kFp32;
  LossKind loss = LossKind::kToken;
  std::uint64_t seed = 0;           ///< initial weights
  double learning_rate = 3e-4;      ///< after warm-up
  double min_learning_rate = 3e-5;  ///< at the end of the cosine; TOML: absent = a tenth
  std::int64_t warmup_steps = 10;   ///< linear from 0
  double weight_decay = 0.1;        ///< matrices only; norms and biases are not decayed
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip_norm = 1.0;  ///< global gradient norm; 0 = no clipping
  ClockKind clock = ClockKind::kWall;
  DeviceKind device = DeviceKind::kCpu;
  /// Whether a GPU computes the same bits in every run, with a slower attention backward; nullopt =
  /// it need not. CPUs always do.
  std::optional<bool> deterministic;
  /// A hardware file: in virtual time messages take as long as over its links. Empty = no time.
  std::filesystem::path links;

  [[nodiscard]] bool same_bits() const {
    return deterministic.value_or(device == DeviceKind::kCpu);
  }
  bool operator==(const TrainConfig&) const = default;
};

/// One of several held-out datasets.
struct HeldOutSource {
  std::string name;
  std::filesystem::path prefix;

  bool operator==(const HeldOutSource&) const = default;
};

struct EvaluationConfig {
  std::filesystem::path prefix;  ///< held-out dataset PREFIX.bin and PREFIX.idx
  std::int64_t every = 0;  ///< steps; also before the first and after the last step; 0 = never
  Tokens tokens{131072};   ///< evaluates at most so many tokens, of each set's first documents
  std::vector<HeldOutSource> sources = {};  ///< several held-out datasets, in place of prefix

  /// The held-out datasets: the sources, or that of the prefix, which has no name; may be empty.
  [[nodiscard]] std::vector<HeldOutSource> datasets() const {
    if (!sources.empty() || prefix.empty()) return sources;
    return {{"", prefix}};
  }
  bool operator==(const EvaluationConfig&) const = default;
};

/// How the ranks of a job are arranged.
struct ParallelGrid {
  std::int32_t pp = 1;  ///< pipeline ranks
  std::int32_t dp = 1;  ///< replicas of the pipeline
  std::int32_t tp = 1;  ///< tensor-parallel ranks of a pipeline rank
  /// Stages of each pipeline rank ("model chunks", virtual pipeline stages); 1 where pp is 1.
  std::int32_t stages_per_rank = 1;
  PlacementStyle placement = PlacementStyle::kLoop;  ///< kV: stages_per_rank is 2
  /// Every pipeline rank has an equal part of the vocabulary; false where pp is 1.
  bool spread_vocabulary = false;
  /// The parts of the model's state that replicas share out (ZeRO): 1 = the optimizer's, 2 =
  /// gradients, too, 3 = weights, too, which every pass gathers layer by layer. PackFlow trains
  /// with 1, slimpack.torch.pipeline with 1 and 3; others are planned.
  std::int32_t zero = 1;
  /// The optimizer's states are in host memory, and processors update the weights. Only for layers
  /// under autograd (with_optimizer_on_host).
  bool offload_optimizer = false;
  /// Replicas share weights and the optimizer's states out between steps. Only for layers under
  /// autograd (Costs::shard_replicas).
  bool shard_replicas = false;

  [[nodiscard]] std::int64_t ranks() const { return std::int64_t{pp} * dp * tp; }
  /// Whether pp, dp and tp are the same.
  [[nodiscard]] bool same_ranks(const ParallelGrid& other) const {
    return pp == other.pp && dp == other.dp && tp == other.tp;
  }
  bool operator==(const ParallelGrid&) const = default;
};

struct ParallelConfig : ParallelGrid {
  /// TOML: stages_per_rank = "auto": the planner chooses it, where pp is above 1.
  bool chooses_stages = false;
  bool chooses_vocabulary = false;  ///< likewise of spread_vocabulary
  /// Ranks of a pipeline may run parts of each other's attention, where the planner finds that it
  /// pays.
  bool exchange_context = false;
  CpCommType cp_comm_type = CpCommType::kDirect;  ///< of replicas that share sequences
  bool cp_route = false;                          ///< ContextParallel::route
  double timeout = 300;                           ///< seconds to wait for ranks in other processes
  /// The speed of each rank, replica by replica and pipeline rank by pipeline rank; 1 = as the
  /// costs say; empty = all 1.
  std::vector<double> speed = {};
  /// Plans follow the speeds that training measures (planner/speed_tracker.h). Then they depend on
  /// the machine, and a run repeats only to rounding.
  bool follow_speed = false;

  [[nodiscard]] ContextParallel context() const { return {cp_comm_type, cp_route}; }
  bool operator==(const ParallelConfig&) const = default;
};

struct PlanConfig {
  PlannerKind planner = PlannerKind::kSlimpack;
  Tokens granularity{128};          ///< the search cuts at multiples of this
  std::optional<Bytes> memory_cap;  ///< activations per rank; TOML: bytes or "12GiB"; absent = the
                                    ///< rank's memory less the model's state
  /// At most so many replicas run one sequence together (DP-Merge). The costs may know fewer.
  /// Absent ("auto") = as many as pay for a document of the context.
  std::optional<std::int32_t> most_merged = std::nullopt;
  /// For every layer. kOffload needs a GPU. Absent ("auto") = the planner chooses for each layer,
  /// so that the step fits and is as short as possible.
  std::optional<Recompute> recompute = Recompute::kElementwise;
  BackwardKind backward = BackwardKind::kWhole;
  CutsKind cuts = CutsKind::kAny;
  SolverKind solver = SolverKind::kAuto;
  double time_budget = 0;         ///< seconds to keep looking for a shorter step; 0 = none
  bool unlimited_memory = false;  ///< TOML: memory_cap = "none"
  bool recompute_given = false;   ///< false: nobody set `recompute`, which has its default

  bool operator==(const PlanConfig&) const = default;
};

struct CostConfig {
  std::filesystem::path file;  ///< written by `slimpack profile`; empty = measure at start

  bool operator==(const CostConfig&) const = default;
};

/// The programs that can show a run's metrics while it goes on (run/log_process.h).
inline constexpr std::array<std::string_view, 2> kLogNames{"tensorboard", "wandb"};

struct OutputConfig {
  std::filesystem::path dir = "runs/default";
  std::vector<std::string> log = {};  ///< of kLogNames, each once; TOML: "tensorboard, wandb"

  bool operator==(const OutputConfig&) const = default;
};

struct CheckpointConfig {
  std::int64_t every = 0;      ///< steps; 0 = only when the run ends or is stopped
  std::int32_t keep_last = 2;  ///< older ones are removed

  bool operator==(const CheckpointConfig&) const = default;
};

/// Every key of the TOML file is the name of a field here: [model] config, [data] prefix, …
/// Relative paths in the file are relative to the file's folder; in overrides, to the current one.
struct RunConfig {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  EvaluationConfig evaluation;
  ParallelConfig parallel;
  PlanConfig plan;
  CostConfig cost;
  std::optional<HardwareSpec> hardware;  ///< [hardware]; used when there is no cost file
  OutputConfig output;
  CheckpointConfig checkpoint;

  bool operator==(const RunConfig&) const = default;
};

/// Parses TOML text. `overrides` are "section.key=value", with the value in TOML syntax or as a
/// bare word. Throws InvalidInput naming `origin`, line, key, value, rule and remedy for unknown
/// sections and keys (with the nearest known one), wrong types, and values out of range. Paths are
/// resolved against `base`. Only `model.config` is required here.
[[nodiscard]] RunConfig run_config_from_toml(std::string_view text, std::string_view origin,
                                             std::span<const std::string> overrides,
                                             const std::filesystem::path& base);

[[nodiscard]] RunConfig read_run_config(const std::filesystem::path& file,
                                        std::span<const std::string> overrides);

/// A commented TOML file of every key with its default, rule and meaning; it parses to the
/// defaults.
[[nodiscard]] std::string run_config_reference();

/// TOML of every key with the value that it has here. Keys that have none are comments.
[[nodiscard]] std::string run_config_to_toml(const RunConfig& config);

/// "123", "64MiB", "12GiB", "1.5GB" → bytes. kB, MB, GB and TB are powers of 1000; KiB, MiB, GiB
/// and TiB are powers of 1024. Drops fractions of a byte. Throws InvalidInput naming `what`.
[[nodiscard]] Bytes parse_bytes(std::string_view text, std::string_view what);

}  // namespace slimpack
