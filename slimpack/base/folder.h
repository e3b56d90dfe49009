// Folders: what is in them, and changes to them that survive a power cut.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace slimpack {

/// Names of everything in a folder, sorted; none when there is no such folder.
[[nodiscard]] std::vector<std::string> folder_entries(const std::filesystem::path& folder);

/// Removes a folder with all that is in it, as far as that can be done. Links are removed, not
/// followed.
void remove_folder(const std::filesystem::path& folder);

/// Puts the names in a folder on disk: files that were renamed into it, and folders. Throws
/// as output_failed.
void flush_folder(const std::filesystem::path& folder);

/// Gives a folder or file another name in the same file system; flush_folder makes that last.
/// Throws as output_failed, naming both.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace slimpack
