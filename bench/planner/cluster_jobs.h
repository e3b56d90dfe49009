// Cluster jobs: steps of 256 H100s in every usual layout, and large steps, with all options on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/planner/jobs.h"

namespace slimpack::bench {

/// The lengths of a step, with a name for tables.
struct LengthList {
  std::string name;
  SequenceLengths lengths;
};

inline constexpr std::size_t kClusterSequences = 512;
inline constexpr Tokens kClusterContext{262'144};

/// Four lists of kClusterSequences lengths, truncated at kClusterContext: the first real ones of
/// `file`; ln(length) ~ N(6.5, 1.3²) with three of 100,000 to 250,000 tokens; ln(length) ~
/// N(7, 1.6²); Pareto as in workloads.h. Throws InvalidInput as real_lengths.
[[nodiscard]] std::vector<LengthList> cluster_lists(const std::filesystem::path& file);

/// Ranks: tp × pp × dp.
struct ClusterLayout {
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::int32_t dp = 1;
};

/// Every layout of 256 ranks with tp and pp of 1, 2, 4 or 8.
[[nodiscard]] std::vector<ClusterLayout> cluster_layouts();

/// Groups of so many replicas may share a sequence.
inline constexpr std::int32_t kClusterMerged = 16;

/// A model of models/ in bf16 on hardware/h100.toml with the memory that its states leave, and
/// every option: any recomputation by layer, split backwards, merging, the automatic solver.
/// nullopt if the states leave nothing.
[[nodiscard]] std::optional<StepJob> cluster_job(std::string_view model,
                                                 const ClusterLayout& layout,
                                                 const SequenceLengths& lengths, Tokens context);

}  // namespace slimpack::bench
