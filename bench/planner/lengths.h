// Lengths of one step, real or drawn from a seed, the same on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "slimpack/base/random.h"
#include "slimpack/plan/slice.h"

namespace slimpack::bench {

/// The first `count` lengths of a list, each truncated at `context`. Throws InvalidInput as
/// read_lengths, and when the list is shorter.
[[nodiscard]] SequenceLengths real_lengths(const std::filesystem::path& file, std::size_t count,
                                           Tokens context);

/// ln(length) ~ N(mean_of_log, deviation_of_log²). As it stands: median 1,808, mean 11,000, the
/// longest of 512 about 600,000.
struct LogNormal {
  double mean_of_log = 7.5;
  double deviation_of_log = 1.9;
};

/// `count` lengths, truncated at `context`.
[[nodiscard]] SequenceLengths log_normal_lengths(std::uint64_t seed, std::size_t count,
                                                 Tokens context, const LogNormal& shape = {});

/// `count` lengths of a Pareto distribution with index 1.1 from 256 tokens on, truncated at
/// `context`.
[[nodiscard]] SequenceLengths pareto_lengths(std::uint64_t seed, std::size_t count, Tokens context);

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
