// Workloads: the lengths of one step, real or drawn from a seed, the same on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "slimpack/base/random.h"
#include "slimpack/workload/slice.h"

namespace slimpack::bench {

/// The first `count` lengths of a list, each truncated at `context`. Throws InvalidInput as
/// read_lengths, and when the list is shorter.
[[nodiscard]] SequenceLengths real_lengths(const std::filesystem::path& file, std::size_t count,
                                           Tokens context);

/// `count` lengths with ln(length) ~ N(7.5, 1.9²): median 1,808, mean 11,000, the longest of 512
/// about 600,000; truncated at `context`.
[[nodiscard]] SequenceLengths log_normal_lengths(std::uint64_t seed, std::size_t count,
                                                 Tokens context);

/// `count` lengths with the Pareto distribution of drawn_lengths, truncated at `context`.
[[nodiscard]] SequenceLengths pareto_lengths(std::uint64_t seed, std::size_t count, Tokens context);

/// The lists that plans for a cluster are rated with, `count` lengths each, truncated at `context`,
/// from seeds of their own.
enum class ClusterList : std::uint8_t {
  kReal,       ///< the first of a file
  kHeavy,      ///< ln(length) ~ N(6.5, 1.3²), but three of 100,000 to 250,000 tokens
  kLogNormal,  ///< ln(length) ~ N(7, 1.6²)
  kPareto,     ///< as Family::kPareto
};
inline constexpr ClusterList kClusterLists[] = {ClusterList::kReal, ClusterList::kHeavy,
                                                ClusterList::kLogNormal, ClusterList::kPareto};
[[nodiscard]] std::string_view to_string(ClusterList list);
/// Throws as real_lengths.
[[nodiscard]] SequenceLengths cluster_lengths(ClusterList list, const std::filesystem::path& file,
                                              std::size_t count, Tokens context);

enum class Family : std::uint8_t { kLogNormal, kPareto, kBimodal, kEqual };
inline constexpr Family kFamilies[] = {Family::kLogNormal, Family::kPareto, Family::kBimodal,
                                       Family::kEqual};
[[nodiscard]] std::string_view to_string(Family family);

/// Draws sequences until `tokens` are reached or passed:
///  - log-normal as above;
///  - Pareto with index 1.1 from 256 tokens on;
///  - bimodal: nine of ten around 1,024 tokens, the tenth between half the context and all of it;
///  - equal: all of one length between 1,024 tokens and the context.
/// Each at least 1 and truncated at `context`. REQUIRES: context ≥ 2,048.
[[nodiscard]] SequenceLengths drawn_lengths(Family family, Rng& rng, Tokens tokens, Tokens context);

}  // namespace slimpack::bench
