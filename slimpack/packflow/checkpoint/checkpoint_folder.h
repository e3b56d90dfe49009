// Checkpoints on disk: OUTPUT/checkpoints/step-00000100, a folder that is complete as soon as it
// has that name. docs/checkpoints.md has the format.
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

/// "step-00000100".
[[nodiscard]] std::string checkpoint_name(std::int64_t steps);
/// 100; nullopt when a folder of this name is no checkpoint.
[[nodiscard]] std::optional<std::int64_t> checkpoint_steps(std::string_view name);

/// Steps done at the checkpoints in a folder, ascending. Does not look into them.
[[nodiscard]] std::vector<std::int64_t> checkpoints_in(const std::filesystem::path& folder);

struct Checkpoint {
  std::filesystem::path folder;
  TrainingState state;
};

/// The newest sound checkpoint in a folder. `pass_over` is told, in one line, of each newer one
/// that is not.
[[nodiscard]] std::optional<Checkpoint> newest_checkpoint(
    const std::filesystem::path& folder, const std::function<void(const std::string&)>& pass_over);

/// Where a checkpoint is written before it is complete.
[[nodiscard]] std::filesystem::path partial_folder(const std::filesystem::path& folder,
                                                   std::int64_t steps);

/// Gives a complete checkpoint its name, which lasts from then on; one of that name is replaced.
/// Throws InvalidInput.
void publish_checkpoint(const std::filesystem::path& folder, std::int64_t steps);

/// Keeps the newest `keep` checkpoints up to `steps` and removes the others. Checkpoints of later
/// steps go, too: training has gone back to before them.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t steps, std::int32_t keep);

/// Renames the checkpoint of these steps, if there is one, so that no run goes on from it by
/// itself: "diverged-step-00000100". Replaces one that was set aside before. Returns its new path.
[[nodiscard]] std::optional<std::filesystem::path> set_aside_checkpoint(
    const std::filesystem::path& folder, std::int64_t steps);

/// Removes what is left of runs that ended while they wrote.
void remove_partial_checkpoints(const std::filesystem::path& folder);

}  // namespace slimpack
