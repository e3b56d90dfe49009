// Published measurements of training steps and of all-reduces. bench/data/README.md says whose.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack::bench {

/// A step as its source describes it. Counts are 0 and texts empty where the source says nothing.
struct PublishedStep {
  std::string set;  ///< whose measurement: "Megatron 2021", …
  std::string id;
  std::string gpu;
  std::int32_t gpus = 0;
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t ffn = 0;
  std::int32_t vocabulary = 0;
  Tokens tokens{0};  ///< of each sequence
  std::int32_t tp = 1, pp = 1, cp = 1, dp = 1;
  std::int32_t stages_per_rank = 1;
  std::int32_t micro_batch = 0;  ///< sequences of a MicroPack
  std::int32_t batch = 0;        ///< sequences of a step
  std::string shard, recompute, precision;
  bool compiled = false;  ///< its source says that a compiler fused the operators
  double seconds = 0;
  double memory = 0;  ///< bytes, of the rank with the most
};

/// Sets: those of vTrain's steps, and that of MosaicML's.
inline constexpr std::string_view kOneNode = "vTrain, 2-8 A100";
inline constexpr std::string_view kManyNodes = "vTrain, 64-512 A100";
inline constexpr std::string_view kFoundry = "llm-foundry";

/// Each reads the text of one file of bench/data/published. Throws InvalidInput naming `origin`,
/// line, column, value and rule.
[[nodiscard]] std::vector<PublishedStep> vtrain_one_node(std::string_view text,
                                                         const std::string& origin);
[[nodiscard]] std::vector<PublishedStep> vtrain_many_nodes(std::string_view text,
                                                           const std::string& origin);
/// Rows of other sources. The beginning of an id says which set it is of.
[[nodiscard]] std::vector<PublishedStep> other_steps(std::string_view text,
                                                     const std::string& origin);

struct AllReduce {
  std::int32_t ranks = 2;  ///< of one node
  double bytes = 0;        ///< of one rank's tensor
  double seconds = 0;
};
[[nodiscard]] std::vector<AllReduce> all_reduces(std::string_view text, const std::string& origin);

struct Published {
  std::vector<PublishedStep> steps;
  std::vector<AllReduce> all_reduces;
};
/// All files of the folder.
[[nodiscard]] Published read_published(const std::filesystem::path& folder);

}  // namespace slimpack::bench
