// Document lengths: reads lists of them from text files and computes statistics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// Parses a length list: one integer from 1 to 2^31 − 1 on each line. Skips blank lines, text
/// after a #, and the mark of UTF-8 (BOM) before a line. Throws InvalidInput for bad lines, naming
/// `origin` and each line's number, text and rule (of the first five, and how many more), and for a
/// list without any length.
[[nodiscard]] std::vector<Tokens> parse_lengths(std::string_view text, std::string_view origin);
/// parse_lengths of a file, a pipe, or "-", the standard input.
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

/// The percentile p50 is the smallest length that at least 50% of the documents do not exceed.
struct LengthStatistics {
  std::int64_t count = 0;
  Tokens tokens;
  double mean = 0;
  Tokens p50, p90, p95, p99, p999, max;
  /// The shares of the longest 1% of the documents (rounded up).
  double longest_token_share = 0;
  double longest_attention_share = 0;
  std::vector<LengthBin> histogram;  ///< ascending, from the shortest's bin to the longest's
};

/// All figures are 0 for an empty list. Cost: O(n log n).
[[nodiscard]] LengthStatistics length_statistics(std::span<const Tokens> lengths);

/// {"format": "slimpack-lengths", "version": 1, …} with the field names above.
[[nodiscard]] nlohmann::json to_json(const LengthStatistics& statistics);

}  // namespace slimpack
