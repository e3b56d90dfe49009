#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/packflow/generate/entropy_bins.h"

namespace slimpack {
namespace {

constexpr std::string_view kFormat = "slimpack-heterospec";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMost = std::int64_t{1} << 20;
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

void write_entropy_bins(const EntropyBins& bins, const std::filesystem::path& file) {
  const nlohmann::ordered_json json{{"format", kFormat},        {"version", kVersion},
                                    {"depth", bins.base.depth}, {"rows", bins.base.rows},
                                    {"width", bins.base.width}, {kThresholds, bins.thresholds}};
  write_file(file, json.dump(2) + "\n");
}

EntropyBins read_entropy_bins(const std::filesystem::path& file) {
  const nlohmann::json json = parse_json(read_file(file, "entropy bins"), file.string());
  const JsonFields fields(json, file.string());
  fields.require_format(kFormat, kVersion);
  EntropyBins bins{.base = {.depth = fields.integer("depth", 1, TreeSize::kMostDepth),
                            .rows = fields.integer("rows", 2, kMost),
                            .width = fields.integer("width", 1, kMost)},
                   .thresholds = thresholds_of(fields)};
  return bins;
}

}  // namespace slimpack
