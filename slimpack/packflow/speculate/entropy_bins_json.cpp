#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/packflow/speculate/entropy_bins.h"

namespace slimpack {
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
  return json.dump(2) + "\n";
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
