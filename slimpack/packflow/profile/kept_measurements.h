// Kept measurements: a profile's figures by part, in a file beside its result, and the machine that
// they hold for. A profile that was stopped goes on with the first part that is missing.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "slimpack/cost/cost_model.h"

namespace slimpack {

class KeptMeasurements {
 public:
  using Figures = std::vector<double>;

  /// Reads what an earlier profile of the same `job` left in `file`; anything else there counts as
  /// nothing, and the first figures that are added replace it. `job` says all that the figures
  /// depend on.
  KeptMeasurements(std::filesystem::path file, std::string job);

  /// Whether the file had figures of this job.
  [[nodiscard]] bool goes_on() const { return !earlier_.empty(); }

  /// The figures of a part that the file had at first; else null. Thread-safe.
  [[nodiscard]] const Figures* find(const std::string& part) const;

  /// Writes the file with this part besides. One thread at a time. Throws as write_file.
  void add(const std::string& part, Figures figures);

  /// Removes the file: the profile is done.
  void remove() const;

 private:
  std::filesystem::path file_;
  std::string job_;
  std::map<std::string, Figures> earlier_;
  std::map<std::string, Figures> all_;
};

/// Where this process measures. A GPU is told by its memory, because libtorch names none without a
/// vendor's headers. `root` stands for "/".
[[nodiscard]] MeasuredOn measured_here(c10::Device device, const std::filesystem::path& root = "/");

/// Throws InvalidInput if the costs of `file` were measured elsewhere or with another libtorch.
/// Accepts costs that nobody measured, such as those from hardware figures.
void require_measured_here(const Costs& cost, c10::Device device,
                           const std::filesystem::path& file);

}  // namespace slimpack
