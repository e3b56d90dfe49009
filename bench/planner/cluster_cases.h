// The cluster cases of parts planning and split: Llama-3-8B and 70B on 256 H100s, 512 documents.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/planner/jobs.h"
#include "slimpack/plan/slice.h"

namespace slimpack::bench {

inline constexpr std::array kClusterModels = {"llama-3-8b", "llama-3-70b"};
inline constexpr std::size_t kClusterSequences = 512;
inline constexpr Tokens kClusterContext{262'144};

/// The lengths of a step, with a name for tables.
struct LengthList {
  std::string name;
  SequenceLengths lengths;
};

/// Four lists of kClusterSequences lengths, truncated at kClusterContext: the first real ones of
/// `file`; ln(length) ~ N(6.5, 1.3²) with three of 100,000 to 250,000 tokens; ln(length) ~
/// N(7, 1.6²); Pareto as in lengths.h. Throws InvalidInput as real_lengths.
[[nodiscard]] std::vector<LengthList> cluster_lists(const std::filesystem::path& file);

/// Every layout of 256 ranks with tp and pp of 1, 2, 4 or 8.
[[nodiscard]] std::vector<Grid> cluster_layouts();

}  // namespace slimpack::bench
