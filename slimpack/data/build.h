// Builds datasets from folders of text: every file is a document of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// The byte tokenizer: every byte is a token, so any text trains without a vocabulary file. Tokens
/// 0 to 255 are the bytes themselves.
inline constexpr std::int32_t kByteEndOfDocument = 256;  ///< closes every document
inline constexpr std::int32_t kByteVocabSize = 257;

/// Patterns are those of the shell (*, ?, [a-z]) and match names, not paths.
struct FileSearch {
  std::filesystem::path from;
  std::string glob = "*";  ///< as in the shell, hidden files need a pattern that begins with a dot
  /// Folders of these names are not entered, at any depth.
  std::vector<std::string> exclude_folders{".*", "__pycache__", "site-packages"};
  /// Prefix of the dataset to write. Files of that prefix are skipped. Empty = none.
  std::filesystem::path out{};
};

/// A file or folder that was left out, and why.
struct SkippedPath {
  std::filesystem::path path;
  std::string reason;
};

struct FoundFiles {
  std::vector<std::filesystem::path> files;  ///< sorted by path, bytewise
  std::vector<SkippedPath> skipped;          ///< unreadable folders, dangling links, files of `out`
};

/// All regular files below search.from that match. Links to files count as files; links to folders
/// are not followed. Throws InvalidInput if `from` is not a readable folder or nothing matches.
[[nodiscard]] FoundFiles find_files(const FileSearch& search);

struct BuildReport {
  std::size_t documents = 0;
  Tokens tokens;                     ///< bytes, and one end-of-document token per document
  std::size_t empty_files = 0;       ///< left out
  std::vector<SkippedPath> skipped;  ///< files that could not be read
};

/// Writes PREFIX.bin and PREFIX.idx: one document per file, in the given order, each closed by
/// kByteEndOfDocument. A file that cannot be read is skipped and reported. Throws InvalidInput if
/// no document is left or the dataset cannot be written; then it leaves no file behind.
[[nodiscard]] BuildReport build_byte_dataset(std::span<const std::filesystem::path> files,
                                             const std::filesystem::path& prefix,
                                             Progress& progress);

}  // namespace slimpack
