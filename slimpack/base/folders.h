// Folders: lists their entries, changes them so that the changes survive a power cut, and knows
// those of a run's checkpoints: OUTPUT/checkpoints/step-00000100, which is complete as soon as it
// has that name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack {

/// The names of all entries of a folder, sorted. Empty when there is no such folder.
[[nodiscard]] std::vector<std::string> folder_entries(const std::filesystem::path& folder);

/// Removes a folder and everything in it. Skips what cannot be removed. Links are removed, not
/// followed.
void remove_folder(const std::filesystem::path& folder);

/// Flushes a folder's entries to disk: the names of files and folders that were created in it or
/// renamed into it. Throws as output_failed.
void flush_folder(const std::filesystem::path& folder);

/// Renames a folder or file within one file system. Call flush_folder to make the change durable.
/// Throws as output_failed, naming both paths.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// "step-00000100".
[[nodiscard]] std::string checkpoint_name(std::int64_t steps);
/// 100; nullopt when a folder of this name is no checkpoint.
[[nodiscard]] std::optional<std::int64_t> checkpoint_steps(std::string_view name);

/// Steps done at the checkpoints in a folder, ascending. Does not look into them.
[[nodiscard]] std::vector<std::int64_t> checkpoints_in(const std::filesystem::path& folder);

/// Where a checkpoint is written before it is complete.
[[nodiscard]] std::filesystem::path partial_folder(const std::filesystem::path& folder,
                                                   std::int64_t steps);

/// Gives a complete checkpoint its name, which lasts from then on; one of that name is replaced.
/// Throws InvalidInput.
void publish_checkpoint(const std::filesystem::path& folder, std::int64_t steps);

/// Keeps the newest `keep` checkpoints up to `steps` and removes the others. Those of later steps
/// go, too: training has gone back to before them.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t steps, std::int32_t keep);

/// Renames the checkpoint of these steps, if there is one, so that no run goes on from it by
/// itself: "diverged-step-00000100". Replaces one that was set aside before. Returns its new path.
[[nodiscard]] std::optional<std::filesystem::path> set_aside_checkpoint(
    const std::filesystem::path& folder, std::int64_t steps);

/// Removes what is left of runs that ended while they wrote.
void remove_partial_checkpoints(const std::filesystem::path& folder);

}  // namespace slimpack
