#include "slimpack/packflow/speculate/entropy_bins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"

namespace slimpack {
namespace {

/// Records by entropy, with sums that give the variance of any run of them in constant time.
class SortedRecords {
 public:
  explicit SortedRecords(std::span<const EntropyRecord> records)
      : records_(records.begin(), records.end()), sums_(1, 0), squares_(1, 0) {
    std::ranges::sort(records_, {}, &EntropyRecord::entropy);
    for (const EntropyRecord& r : records_) {
      sums_.push_back(sums_.back() + r.rank);
      squares_.push_back(squares_.back() + r.rank * r.rank);
    }
  }
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  [[nodiscard]] double entropy(std::size_t i) const { return records_[i].entropy; }
  [[nodiscard]] double variance(std::size_t begin, std::size_t end) const {
    const auto n = static_cast<double>(end - begin);
    const double mean = static_cast<double>(sums_[end] - sums_[begin]) / n;
    return static_cast<double>(squares_[end] - squares_[begin]) / n - mean * mean;
  }

 private:
  std::vector<EntropyRecord> records_;
  std::vector<std::int64_t> sums_, squares_;
};

/// Where [begin, end) is divided so that each side has `least` records; end where it cannot be.
std::size_t best_split(const SortedRecords& records, std::size_t begin, std::size_t end,
                       std::size_t least) {
  // Sums of equal variances round differently.
  constexpr double kEqual = 1e-9;
  double best = std::numeric_limits<double>::infinity();
  std::size_t split = end;
  for (std::size_t at = begin + least; at + least <= end; ++at) {
    if (records.entropy(at - 1) == records.entropy(at)) continue;
    const double sum = records.variance(begin, at) + records.variance(at, end);
    if (sum < best - kEqual) best = sum, split = at;
  }
  return split;
}

/// Appends the thresholds of 2^levels bins, ascending. False where there are too few records.
bool divide(const SortedRecords& records, std::size_t begin, std::size_t end, int levels,
            std::size_t per_bin, std::vector<double>& thresholds) {
  if (levels == 0) return true;
  const std::size_t split = best_split(records, begin, end, per_bin << (levels - 1));
  if (split == end) return false;
  if (!divide(records, begin, split, levels - 1, per_bin, thresholds)) return false;
  thresholds.push_back((records.entropy(split - 1) + records.entropy(split)) / 2);
  return divide(records, split, end, levels - 1, per_bin, thresholds);
}

}  // namespace

std::size_t EntropyBins::bin(double entropy) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(thresholds, entropy) -
                                  thresholds.begin());
}

std::array<double, EntropyBins::kBins - 1> fit_entropy_bins(
    std::span<const EntropyRecord> records) {
  constexpr std::size_t kShare = 100;
  constexpr int kLevels = 3;
  const SortedRecords sorted(records);
  const std::size_t per_bin = std::max<std::size_t>(1, (sorted.size() + kShare - 1) / kShare);
  std::vector<double> thresholds;
  if (!divide(sorted, 0, sorted.size(), kLevels, per_bin, thresholds))
    invalid_input(
        "{} records of right guesses do not make {} bins of entropy; record more answers, or train "
        "the draft head further",
        sorted.size(), EntropyBins::kBins);
  std::array<double, EntropyBins::kBins - 1> result{};
  std::ranges::copy(thresholds, result.begin());
  return result;
}

namespace {

constexpr std::string_view kFormat = "slimpack-heterospec";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostRows = std::int64_t{1} << 20;
constexpr const char* kThresholds = "entropy_thresholds";

std::array<double, EntropyBins::kBins - 1> thresholds_of(const JsonFields& fields) {
  std::array<double, EntropyBins::kBins - 1> thresholds{};
  const nlohmann::json& array = fields.array(kThresholds);
  const auto is_sound = [](const nlohmann::json& x) {
    return x.is_number() && std::isfinite(x.get<double>());
  };
  if (array.size() == thresholds.size() && std::ranges::all_of(array, is_sound)) {
    for (std::size_t i = 0; i < thresholds.size(); ++i) thresholds[i] = array[i].get<double>();
    if (std::ranges::is_sorted(thresholds)) return thresholds;
  }
  invalid_input("{}: field \"{}\" must be {} ascending numbers; fit the bins again",
                fields.origin(), kThresholds, thresholds.size());
}

}  // namespace

std::string entropy_bins_to_json(const EntropyBins& bins) {
  const nlohmann::ordered_json json{{"format", kFormat},        {"version", kVersion},
                                    {"depth", bins.base.depth}, {"rows", bins.base.rows},
                                    {"width", bins.base.width}, {kThresholds, bins.thresholds}};
  return json_text(json, 2) + "\n";
}

EntropyBins entropy_bins_from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json json = parse_json(text, origin);
  const JsonFields fields(json, std::string(origin));
  fields.require_format(kFormat, kVersion);
  return {.base = {.depth = fields.integer("depth", 1, TreeSize::kMostDepth),
                   .rows = fields.integer("rows", 2, kMostRows),
                   .width = fields.integer("width", 1, kMostRows)},
          .thresholds = thresholds_of(fields)};
}

void write_entropy_bins(const EntropyBins& bins, const std::filesystem::path& file) {
  write_file(file, entropy_bins_to_json(bins));
}

EntropyBins read_entropy_bins(const std::filesystem::path& file) {
  return entropy_bins_from_json(read_file(file, "entropy bins"), file.string());
}

}  // namespace slimpack
