// Kept measurements: a profile's figures by part, in a file beside its result. A profile that was
// stopped goes on with the first part that is missing.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

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

}  // namespace slimpack
