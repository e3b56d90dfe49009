// Folders: lists their entries, and changes them so that the changes survive a power cut.
#pragma once

#include <filesystem>
#include <string>
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

}  // namespace slimpack
