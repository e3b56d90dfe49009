// Jobs that several parts and programs plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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

/// Bytes that a rank of the fullest stage has left for activations: the rank's memory less
/// StageTable::state, less 5% of the rest for fragments and buffers.
[[nodiscard]] Bytes activation_memory(const Costs& cost, const StageLayout& layout,
                                      std::int32_t replicas);

/// Forward and backward of these sequences uncut on a stage of so many layers, in nanoseconds,
/// without what MicroPacks cost by themselves.
[[nodiscard]] double stage_work(const Costs& cost, const SequenceLengths& lengths,
                                std::int32_t layers);

/// Settings A and B have the accounting of published comparisons: FLOPs over speeds, 34·h bytes of
/// activations per token and layer, no communication, no head.
///
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
[[nodiscard]] StepJob setting_b_job(const DrawnLengths& lengths);

/// Ranks: tp tensor-parallel ranks on each of pp stages of dp replicas.
struct Grid {
  std::int32_t tp = 8;
  std::int32_t pp = 4;
  std::int32_t dp = 8;

  bool operator==(const Grid&) const = default;
};
/// "tp 8 × pp 4 × dp 8".
[[nodiscard]] std::string to_string(const Grid& grid);
/// A model of models/ on H100 nodes. Merging of up to dp replicas is known, offloading is not.
[[nodiscard]] Costs grid_cost(std::string_view model, const Grid& grid);
/// A step with every option on: merging, split backwards, recomputation by layer, and the memory
/// that the model leaves. nullopt if it leaves none, or if the model has fewer layers than stages.
[[nodiscard]] std::optional<StepJob> grid_job(const Costs& cost, const Grid& grid,
                                              const SequenceLengths& lengths, Tokens context);

/// A file of this repository.
[[nodiscard]] std::filesystem::path repository_file(const std::filesystem::path& path);

}  // namespace slimpack::bench
