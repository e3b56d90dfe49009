#include "slimpack/data/build.h"

#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/data/documents.h"
#include "slimpack/data/indexed_dataset_writer.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

bool matches(const std::string& pattern, const char* name, int flags) {
  return ::fnmatch(pattern.c_str(), name, flags) == 0;
}

/// The files that an earlier build wrote under the same prefix. If they became documents, a second
/// build would make another dataset than the first.
class EarlierOutput {
 public:
  explicit EarlierOutput(const fs::path& prefix) {
    if (prefix.empty()) return;
    const fs::path mask = mask_prefix(prefix);
    for (const fs::path& file :
         {bin_path(prefix), idx_path(prefix), bin_path(mask), idx_path(mask)}) {
      struct stat status {};
      if (::stat(file.c_str(), &status) != 0) status.st_ino = 0;  // no file has this number
      files_.push_back({file, status.st_dev, status.st_ino});
    }
  }

  /// Compares files, not names: the output may be a link to `path`, for example.
  [[nodiscard]] bool has(const fs::path& path, const struct stat& status) const {
    return std::any_of(files_.begin(), files_.end(), [&](const File& file) {
      return (status.st_dev == file.device && status.st_ino == file.number) ||
             is_left_behind(path, file.path);
    });
  }

 private:
  struct File {
    fs::path path;
    dev_t device;
    ino_t number;
  };
  std::vector<File> files_;
};

/// One search: the folders still to enter, and the files found so far. Reads folders with readdir:
/// libtorch exports symbols that clash with std::filesystem's directory iterators.
class Walk {
 public:
  explicit Walk(const FileSearch& search)
      : search_(search), output_(search.out), pending_{search.from} {}

  FoundFiles run() {
    while (!pending_.empty()) {
      const fs::path path = std::move(pending_.back());
      pending_.pop_back();
      enter(path);
    }
    std::sort(found_.files.begin(), found_.files.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    return std::move(found_);
  }

 private:
  void enter(const fs::path& path) {
    const Folder folder(::opendir(path.c_str()));
    if (!folder) return skip(path);
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());
      if (!entry) break;
      visit(path, entry->d_name);
    }
    if (errno != 0) skip(path);
  }

  void visit(const fs::path& parent, const char* name) {
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) return;
    const fs::path path = parent / name;
    const bool wanted = matches(search_.glob, name, FNM_PERIOD);
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return skip(path);
    if (S_ISDIR(status.st_mode)) {
      if (!excluded(name)) pending_.push_back(path);
    } else if (wanted && S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) != 0) {
      skip(path);
    } else if (wanted && S_ISREG(status.st_mode)) {
      if (output_.has(path, status))
        found_.skipped.push_back({path, "belongs to the dataset that is written"});
      else
        found_.files.push_back(path);
    }
  }

  bool excluded(const char* name) const {
    return std::any_of(search_.exclude_folders.begin(), search_.exclude_folders.end(),
                       [&](const std::string& pattern) { return matches(pattern, name, 0); });
  }

  void skip(const fs::path& path) { found_.skipped.push_back({path, std::strerror(errno)}); }

  const FileSearch& search_;
  EarlierOutput output_;
  std::vector<fs::path> pending_;
  FoundFiles found_;
};

std::vector<std::int32_t> byte_document(std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() + 1);
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  tokens.push_back(kByteEndOfDocument);
  return tokens;
}

}  // namespace

FoundFiles find_files(const FileSearch& search) {
  struct stat status {};
  if (::stat(search.from.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    invalid_input("'{}' is not a folder; give the folder that holds the text files",
                  search.from.string());
  FoundFiles found = Walk(search).run();
  if (!found.files.empty()) return found;
  if (!found.skipped.empty())
    invalid_input("no file below '{}' matches '{}', and '{}' was left out: {}; try another pattern",
                  search.from.string(), search.glob, found.skipped.front().path.string(),
                  found.skipped.front().reason);
  invalid_input("no file below '{}' matches '{}'; try another pattern, or '*' for all files",
                search.from.string(), search.glob);
}

BuildReport build_byte_dataset(std::span<const fs::path> files, const fs::path& prefix,
                               Progress& progress) {
  // Leaves room for the end-of-document token.
  constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int32_t>::max() - 1;
  BuildReport report;
  IndexedDatasetWriter writer(prefix, kByteVocabSize);
  for (const fs::path& file : files) {
    std::string text;
    try {
      text = read_file(file, "text file", kMaxBytes);
    } catch (const InvalidInput& e) {
      report.skipped.push_back({file, e.what()});
      progress.advance();
      continue;
    }
    if (text.empty())
      ++report.empty_files;
    else
      writer.append(byte_document(text));
    progress.advance();
  }
  if (writer.documents() == 0)
    invalid_input(
        "none of the {} files can be used: {} are empty, {} cannot be read; nothing was "
        "written to '{}'",
        files.size(), report.empty_files, report.skipped.size(), prefix.string());
  writer.commit();
  progress.finish();
  report.documents = writer.documents();
  report.tokens = writer.tokens();
  return report;
}

}  // namespace slimpack
