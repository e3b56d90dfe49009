// Files of a checkpoint's folder. docs/checkpoints.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/checksum.h"
#include "slimpack/base/file.h"
#include "slimpack/base/folders.h"

namespace slimpack {

inline constexpr const char* kStateFile = "training_state.json";
inline constexpr const char* kOptimizerStem = "optimizer";  ///< of the files with its state

/// A file of a checkpoint as it was written.
struct CheckpointFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string checksum;

  bool operator==(const CheckpointFile&) const = default;
};
[[nodiscard]] nlohmann::json to_json(const std::vector<CheckpointFile>& files);
[[nodiscard]] std::vector<CheckpointFile> checkpoint_files_from_json(const nlohmann::json& array,
                                                                     const std::string& origin);

/// Writes a file of a checkpoint, complete or not at all, and notes what it wrote.
class CheckpointFileWriter {
 public:
  explicit CheckpointFileWriter(const std::filesystem::path& file);
  void write(std::span<const std::byte> bytes);
  /// Flushes the file to disk and gives it its name. Called last.
  [[nodiscard]] CheckpointFile commit();

 private:
  AtomicFile out_;
  CheckpointFile written_;
  Checksum checksum_;
};
[[nodiscard]] CheckpointFile write_checkpoint_file(const std::filesystem::path& file,
                                                   std::string_view text);

/// training_state.json.
struct TrainingState {
  std::int64_t steps = 0;  ///< done
  nlohmann::json run;      ///< what the program needs to go on; an object
  std::vector<CheckpointFile> files;
};
[[nodiscard]] std::string training_state_to_json(const TrainingState& state);
/// Reads a training state. Throws InvalidInput for any other text, or if it was changed after it
/// was written.
[[nodiscard]] TrainingState training_state_from_json(std::string_view text,
                                                     const std::string& origin);

[[nodiscard]] TrainingState read_training_state(const std::filesystem::path& folder);

/// The folder's state. Throws InvalidInput naming the first file that is missing, is not as it was
/// written, or holds a number that is not finite. Reads every file.
[[nodiscard]] TrainingState read_checkpoint(const std::filesystem::path& folder);

struct Checkpoint {
  std::filesystem::path folder;
  TrainingState state;
};

/// The newest sound checkpoint in a folder. `pass_over` is told, in one line, of each newer one
/// that is not.
[[nodiscard]] std::optional<Checkpoint> newest_checkpoint(
    const std::filesystem::path& folder, const std::function<void(const std::string&)>& pass_over);

}  // namespace slimpack
