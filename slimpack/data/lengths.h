// Document lengths: lists of them in text files, and what their distribution costs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// A length list: one integer from 1 to 2^31 − 1 a line; blank lines and what follows a # are
/// skipped. Throws InvalidInput naming `origin` and the number, text and rule of the bad lines (the
/// first five and how many more), and for a list without any length.
[[nodiscard]] std::vector<Tokens> parse_lengths(std::string_view text, std::string_view origin);
/// Likewise of a file, a pipe, or "-": the standard input.
[[nodiscard]] std::vector<Tokens> read_lengths(const std::filesystem::path& file);

/// Documents of [low, high] tokens. Shares are of the whole list, 0 to 1.
struct LengthBin {
  Tokens low;   ///< 0, 1, 2, 4, 8, …
  Tokens high;  ///< inclusive: 0, 1, 3, 7, 15, …
  std::int64_t count = 0;
  double token_share = 0;
  double attention_share = 0;  ///< of the sum of squared lengths

  bool operator==(const LengthBin&) const = default;
};

/// A percentile is the smallest length that at least that share of the documents does not exceed.
struct LengthStatistics {
  std::int64_t count = 0;
  Tokens tokens;
  double mean = 0;
  Tokens p50, p90, p95, p99, p999, max;
  /// What the longest 1% of the documents (rounded up) hold.
  double longest_token_share = 0;
  double longest_attention_share = 0;
  std::vector<LengthBin> histogram;  ///< ascending, from the shortest's bin to the longest's
};

/// O(n log n). Of an empty list everything is 0.
[[nodiscard]] LengthStatistics length_statistics(std::span<const Tokens> lengths);

/// {"format": "slimpack-lengths", "version": 1, …} with the field names above.
[[nodiscard]] nlohmann::json to_json(const LengthStatistics& statistics);

}  // namespace slimpack
