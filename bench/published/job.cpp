#include "bench/published/job.h"

#include <optional>

#include "slimpack/base/file.h"

namespace slimpack::bench {
namespace {

/// MicroPacks of a step whose batch is not published, for each rank of the pipeline: enough that
/// every rank holds as many as it ever does.
constexpr std::int32_t kPacksForMemory = 2;

/// The programs that megatron.toml is of.
bool runs_early_megatron(const PublishedStep& step) {
  return step.set == kOneNode || step.set == kManyNodes || step.set.starts_with("Megatron 2021") ||
         step.set.starts_with("Megatron 2022");
}

bool has_gated_mlp(const PublishedStep& step) {
  return step.set == "torchtitan" || step.set == "SimuMax" || step.set == "InternEvo" ||
         step.set == "Megatron 2023";
}

/// An MLP of two maps has the FLOPs and parameters of a gated one of two thirds of its width.
Decoder shape_of(const PublishedStep& step) {
  Decoder shape;
  shape.set_layers(step.layers);
  shape.kinds = {{.hidden_size = step.hidden,
                  .num_heads = step.heads,
                  .num_kv_heads = step.kv_heads,
                  .head_dim = step.hidden / step.heads,
                  .value_dim = step.hidden / step.heads,
                  .dense_width = has_gated_mlp(step) ? step.ffn : 2 * std::int64_t{step.ffn} / 3}};
  shape.vocab_size = step.vocabulary;
  shape.tie_embeddings = !has_gated_mlp(step);
  return shape;
}

bool is_a100(const PublishedStep& step) {
  return step.gpu.starts_with("A100") || step.gpu.starts_with("a100");
}

/// H800s differ from H100s in what no step here depends on.
const HardwareSpec& hardware_of(const PublishedStep& step, const Machines& machines) {
  const bool a100 = is_a100(step);
  if (step.gpu.starts_with("B200")) return machines.b200;
  if (step.gpu.ends_with("500W")) return machines.h100_500w;
  if (step.set == kFoundry) return a100 ? machines.a100_products : machines.h100_products;
  if (!a100) return machines.h100;
  return runs_early_megatron(step) ? machines.vtrain : machines.a100;
}

RuntimeSpec runtime_of(const PublishedStep& step, const Machines& machines) {
  if (runs_early_megatron(step)) return machines.megatron;
  if (step.set == kFoundry) return machines.eager;
  if (step.set == "torchtitan") return step.compiled ? machines.fused : machines.eager;
  return step.set == "SimuMax" ? machines.fused : RuntimeSpec{};
}

/// The hardware with the speed that products have alone.
HardwareSpec with_products(HardwareSpec hardware, const HardwareSpec& products) {
  hardware.linear_flops = products.linear_flops;
  hardware.linear_half_rows = products.linear_half_rows;
  return hardware;
}

/// Megatron shards by sequence where its source says so, Megatron Core and torchtitan always.
bool shards_sequences(const PublishedStep& step) {
  const bool may_not = runs_early_megatron(step) || step.set == "Megatron 2023";
  return !may_not || step.recompute.find("+ SP") != std::string::npos;
}

std::optional<Kept> kept_by(std::string_view recompute) {
  if (recompute.starts_with("full")) return Kept::kInput;
  if (recompute == "selective op") return Kept::kEverySecond;
  if (recompute.starts_with("selective")) return Kept::kAllButAttention;
  if (recompute.starts_with("none")) return Kept::kEverything;
  return std::nullopt;
}

std::optional<Shared> shared_by(const PublishedStep& step) {
  const std::string_view shard = step.shard;
  if (shard.empty()) return Shared::kNothing;
  if (shard == "ZeRO-1" || shard == "distributed optimizer") return Shared::kOptimizer;
  if (shard == "ZeRO-1 within 8" && step.dp <= 8) return Shared::kOptimizer;
  if (shard == "SHARD_GRAD_OP") return Shared::kGradients;
  if (shard == "fsdp" || shard == "FULL_SHARD") return Shared::kEverything;
  return std::nullopt;
}

Accounting accounting_of(const PublishedStep& step) {
  if (step.set == "Megatron 2023") return Accounting::kMegatron2023;
  if (runs_early_megatron(step)) return Accounting::kMegatron2022;
  return shared_by(step) == Shared::kEverything ? Accounting::kFullySharded : Accounting::kFused;
}

/// The reason why a step cannot be expressed; empty if it can.
std::string obstacle(const PublishedStep& step) {
  if (step.ffn == 0 || step.vocabulary == 0) return "expert layers of unpublished widths";
  if (step.cp > 1) return "context parallelism of every MicroPack";
  if (step.precision.find("fp8") != std::string::npos) return "fp8 products";
  if (step.micro_batch == 0) return "micro-batch not published";
  if (step.seconds == 0 && step.memory == 0) return "neither time nor memory published";
  if (step.seconds > 0 && step.batch == 0) return "batch not published";
  if (!kept_by(step.recompute)) return "recomputation not published";
  if (!shared_by(step)) return "state shared within groups of replicas";
  if (step.batch > 0 && step.batch % (step.dp * step.micro_batch) != 0)
    return "batch is no multiple of micro-batch and replicas";
  if (step.layers % (step.pp * step.stages_per_rank) != 0) return "stages of unlike layers";
  return "";
}

void add_packs(const PublishedStep& step, PublishedJob& job) {
  const std::int32_t packs = step.batch > 0 ? step.batch / step.dp / step.micro_batch
                                            : kPacksForMemory * step.pp * step.stages_per_rank;
  for (std::int32_t m = 0; m < packs; ++m) {
    MicroPack& pack = job.packs.forward.emplace_back();
    for (std::int32_t s = 0; s < step.micro_batch; ++s) {
      pack.slices.push_back({SequenceId(job.lengths.size()), Tokens(0), step.tokens});
      job.lengths.push_back(step.tokens);
    }
  }
  job.packs.backward = job.packs.forward;
}

StageLayout equal_stages(const PublishedStep& step) {
  StageLayout layout{{}, StagePlacement::looped(step.pp, step.stages_per_rank)};
  const std::int32_t stages = step.pp * step.stages_per_rank;
  for (std::int32_t s = 0; s <= stages; ++s) layout.layer_begin.push_back(step.layers / stages * s);
  return layout;
}

}  // namespace

Machines read_machines(const std::filesystem::path& root) {
  const std::filesystem::path published = root / "bench/data/published";
  const auto runtime = [&](const char* name) {
    const std::filesystem::path file = published / name;
    return runtime_from_toml(read_file(file, "runtime"), file.string());
  };
  Machines machines{.vtrain = read_hardware(published / "a100-vtrain.toml"),
                    .megatron = runtime("megatron.toml"),
                    .fused = runtime("fused.toml"),
                    .eager = runtime("eager.toml"),
                    .a100 = read_hardware(root / "hardware/a100.toml"),
                    .h100 = read_hardware(root / "hardware/h100-fa2.toml"),
                    .b200 = read_hardware(published / "b200.toml"),
                    .a100_products = {},
                    .h100_products = {},
                    .h100_500w = read_hardware(published / "h100-500w.toml")};
  machines.a100_products = with_products(machines.a100, machines.vtrain);
  machines.h100_products =
      with_products(machines.h100, read_hardware(published / "h100-products.toml"));
  return machines;
}

Expressed express(const PublishedStep& step, const Machines& machines, Figures figures) {
  if (std::string reason = obstacle(step); !reason.empty()) return reason;
  PublishedJob job;
  job.shape = shape_of(step);
  if (figures == Figures::kOfProgram) {
    job.hardware = hardware_of(step, machines);
    job.runtime = runtime_of(step, machines);
  } else {
    job.hardware = is_a100(step) ? machines.a100 : machines.h100;
  }
  job.tp = step.tp;
  job.dp = step.dp;
  job.sequence_sharded = shards_sequences(step);
  job.kept = *kept_by(step.recompute);
  job.shared = *shared_by(step);
  job.layout = equal_stages(step);
  job.accounting = accounting_of(step);
  add_packs(step, job);
  return job;
}

}  // namespace slimpack::bench
