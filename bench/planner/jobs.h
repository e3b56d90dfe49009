// Jobs that several parts and programs plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "slimpack/planner/planner.h"

namespace slimpack::bench {

/// A step to plan, with all that a planner is given.
struct StepJob {
  Costs cost;
  Job job;
  SequenceLengths lengths;
  Choices choices = {};
};

/// What a rank of the fullest stage has left for activations: its memory less model_state_bytes,
/// less 5% of the rest for fragments and buffers.
[[nodiscard]] Bytes activation_memory(const Costs& cost, const StageLayout& layout,
                                      std::int32_t replicas);

/// Llama-2 7B in bf16 with the default hardware figures, tp 1, 8 stages, log-normal lengths of seed
/// 1 truncated at 65,536, without recomputation.
struct LlamaJob {
  std::size_t sequences = 512;
  std::int32_t replicas = 8;
  std::int32_t most_merged = 1;
  bool capped = false;  ///< at activation_memory
};
[[nodiscard]] StepJob llama_job(const LlamaJob& job);

/// Setting A: one replica of 4 stages of 8 layers, h = 4096, packs of 65,536 tokens; linear work,
/// attention and backward at 400 TFLOP/s, and 60 and 120 µs per layer and MicroPack or nothing.
struct SettingAJob {
  SequenceLengths lengths;
  bool overheads = false;
  int gigabytes = 0;  ///< for activations of a rank; 0 = no cap
};
inline constexpr std::int32_t kSettingAStages = 4;
inline constexpr std::size_t kSettingASequences = 512;
inline constexpr Tokens kSettingAContext{65'536};
inline constexpr std::int64_t kGigabyte = 1'000'000'000;
[[nodiscard]] StepJob setting_a_job(SettingAJob job);

/// Log-normal lengths of a seed, truncated at the context.
struct DrawnLengths {
  std::uint64_t seed = 1;
  std::size_t sequences = 512;
  Tokens context{65'536};
};

/// Setting B: tensor parallel 8 with 600 TFLOP/s linear, 341 forward and 250 backward attention, 60
/// and 120 µs per layer and MicroPack; 4 stages × 8 replicas; rows of (1.5 × the longest sequence +
/// 4,096) tokens per stage. Sequences may be merged over up to 8 replicas, backwards split.
inline constexpr std::int32_t kSettingBStages = 4;
inline constexpr std::int32_t kSettingBReplicas = 8;
[[nodiscard]] Costs setting_b_cost();
[[nodiscard]] StepJob setting_b_job(const DrawnLengths& lengths);

/// A Llama-2 model of models/ on H100 nodes, tp 8 × pp 4 × dp 8, with the memory that it leaves;
/// sequences may be merged over up to 8 replicas, backwards split, and layers recompute what they
/// like. Nothing is offloaded: what is compared is planning.
inline constexpr std::int32_t kH100Tensor = 8;
inline constexpr std::int32_t kH100Stages = 4;
inline constexpr std::int32_t kH100Replicas = 8;
[[nodiscard]] Costs h100_cost(std::string_view model);
[[nodiscard]] StepJob h100_job(const Costs& cost, const DrawnLengths& drawn);

/// Llama-3-8B in bf16 on 256 H100s: tp × pp, and as many replicas as that leaves. All of them may
/// run a sequence together, backwards are split, and layers recompute what they like. Nothing is
/// offloaded.
inline constexpr std::int32_t kClusterRanks = 256;
inline constexpr Tokens kClusterContext{262'144};
[[nodiscard]] StepJob cluster_job(SequenceLengths lengths, std::int32_t tp, std::int32_t pp);

/// A file of this repository.
[[nodiscard]] std::filesystem::path repository_file(const std::filesystem::path& path);

}  // namespace slimpack::bench
