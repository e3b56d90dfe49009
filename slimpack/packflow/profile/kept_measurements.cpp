#include "slimpack/packflow/profile/kept_measurements.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"

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
  write_file(
      file_,
      nlohmann::json{{"format", kFormat}, {"version", kVersion}, {"job", job_}, {"parts", all_}}
              .dump(1) +
          "\n");
}

void KeptMeasurements::remove() const {
  std::error_code ignored;  // it may not exist
  std::filesystem::remove(file_, ignored);
}

}  // namespace slimpack
