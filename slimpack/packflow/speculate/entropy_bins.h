// Bins of a draft's entropy, by which HeteroSpec (arXiv:2505.13254) tells easy text from hard: a
// regression tree (CART) of depth three on one feature.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {

/// A record of a tree whose best path was right to its end. The best path leads to the likeliest
/// row of the last level.
struct EntropyRecord {
  double entropy = 0;     ///< sum over the path's levels of DraftTree::entropy, nats
  std::int64_t rank = 0;  ///< of its last row among the verified ones by probability, from 1 on
};

struct EntropyBins {
  static constexpr std::size_t kBins = 8;

  TreeSize base;                             ///< of the trees that were recorded
  std::array<double, kBins - 1> thresholds;  ///< ascending

  bool operator==(const EntropyBins&) const = default;
  /// 0 for entropies up to the first threshold, …, 7 for those above the last one.
  [[nodiscard]] std::size_t bin(double entropy) const;
};

/// Three levels of splits. Each makes the sum of both sides' variances of rank as small as it can,
/// not weighted by their sizes, as published; of equals the lowest. Such a split likes tiny sides:
/// every bin keeps a hundredth of the records or more, so a side that is split again keeps that for
/// each of its bins. A threshold lies midway between two records. Throws InvalidInput where there
/// are too few different records for eight bins. Cost: O(n log n).
[[nodiscard]] std::array<double, EntropyBins::kBins - 1> fit_entropy_bins(
    std::span<const EntropyRecord> records);

/// The name of the file of bins beside a draft head.
inline constexpr const char* kEntropyBinsFile = "heterospec.json";

[[nodiscard]] std::string entropy_bins_to_json(const EntropyBins& bins);
/// Reads such a text. Throws InvalidInput, which names `origin`, for any other text.
[[nodiscard]] EntropyBins entropy_bins_from_json(std::string_view text, std::string_view origin);

void write_entropy_bins(const EntropyBins& bins, const std::filesystem::path& file);
/// Reads such a file. Throws InvalidInput for any other file.
[[nodiscard]] EntropyBins read_entropy_bins(const std::filesystem::path& file);

}  // namespace slimpack
