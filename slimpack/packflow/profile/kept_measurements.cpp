#include "slimpack/packflow/profile/kept_measurements.h"

#include <torch/headeronly/version.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/packflow/device/device.h"

namespace slimpack {
namespace {

constexpr std::string_view kFormat = "slimpack-measurements";
constexpr std::int64_t kVersion = 1;

/// The parts in a file of this job. Throws InvalidInput for any other file.
std::map<std::string, KeptMeasurements::Figures> parts_of(const std::string& text,
                                                          const std::string& job) {
  const nlohmann::json json = parse_json(text, "measurements");
  const JsonFields fields(json, "measurements");
  fields.require_format(kFormat, kVersion);
  if (fields.text("job") != job) invalid_input("measurements: of another job");
  std::map<std::string, KeptMeasurements::Figures> parts;
  for (const auto& [part, figures] : fields.at("parts").items()) {
    if (!figures.is_array()) invalid_input("measurements: \"{}\" is no array", part);
    for (const auto& figure : figures) {
      if (!figure.is_number()) invalid_input("measurements: \"{}\" has no numbers", part);
      parts[part].push_back(figure.get<double>());
    }
  }
  return parts;
}

}  // namespace

KeptMeasurements::KeptMeasurements(std::filesystem::path file, std::string job)
    : file_(std::move(file)), job_(std::move(job)) {
  if (!std::filesystem::exists(file_)) return;
  try {
    earlier_ = all_ = parts_of(read_file(file_, "measurements"), job_);
  } catch (const InvalidInput&) {
    earlier_.clear();  // of another job, version or program: measured anew
  }
}

const KeptMeasurements::Figures* KeptMeasurements::find(const std::string& part) const {
  const auto found = earlier_.find(part);
  return found == earlier_.end() ? nullptr : &found->second;
}

void KeptMeasurements::add(const std::string& part, Figures figures) {
  all_[part] = std::move(figures);
  const nlohmann::json file{
      {"format", kFormat}, {"version", kVersion}, {"job", job_}, {"parts", all_}};
  write_file(file_, json_text(file, 1) + "\n");
}

void KeptMeasurements::remove() const {
  std::error_code ignored;  // it may not exist
  std::filesystem::remove(file_, ignored);
}

namespace {

/// The name that Linux gives the first processor; "unknown" where it gives none.
std::string processor_name(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t name = line.find_first_not_of(" \t", line.find(':') + 1);
    if (name != std::string::npos) return line.substr(name);
  }
  return "unknown";
}

std::string text(const MeasuredOn& on) {
  return fmt::format("{} ({}, torch {})", on.processor, on.device, on.torch);
}

}  // namespace

MeasuredOn measured_here(c10::Device device, const std::filesystem::path& root) {
  const std::string kind = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  return {.processor = processor_name(root),
          .device = device.is_cpu()
                        ? kind
                        : fmt::format("{} of {}", kind, human_bytes(device_memory(device))),
          .torch = TORCH_VERSION};
}

void require_measured_here(const Costs& cost, c10::Device device,
                           const std::filesystem::path& file) {
  if (!cost.origin.measured_on) return;
  const MeasuredOn here = measured_here(device);
  if (*cost.origin.measured_on == here) return;
  invalid_input(
      "{}: measured on {}, this is {}; measure here with 'slimpack profile', or leave cost.file "
      "out: training then measures by itself",
      file.string(), text(*cost.origin.measured_on), text(here));
}

}  // namespace slimpack
