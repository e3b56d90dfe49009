// The lock of an output folder: only one run at a time may use the folder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/destination.h"

namespace slimpack {

/// Holds the lock FOLDER/slimpack.lock; the file names the holder. The kernel keeps the lock and
/// releases it when the process ends, in whatever way. The destructor removes the file. A killed
/// run leaves the file behind, but it keeps nobody out.
class OutputLock {
 public:
  /// Creates a missing folder. `setting`: what names the folder, for messages ("output.dir").
  /// Throws InvalidInput naming process, machine and time if another run holds the lock; then it
  /// has changed nothing in the folder. Throws as output_failed if the file cannot be written. On a
  /// file system without locks it gives `warn` one line and goes on.
  OutputLock(const std::filesystem::path& folder, std::string setting,
             const std::function<void(const std::string&)>& warn);
  OutputLock(OutputLock&&) = default;
  /// Removes the lock file, and the folders that the object created and that are still empty.
  ~OutputLock();

 private:
  /// Creates missing folders. The destructor removes those that are still empty.
  class CreatedFolders {
   public:
    CreatedFolders(const std::filesystem::path& folder, const std::string& remedy);
    CreatedFolders(CreatedFolders&&) = default;
    ~CreatedFolders();

   private:
    std::vector<std::filesystem::path> created_;  ///< the deepest first
  };

  /// Tries to take the lock. False if the file vanished meanwhile, because its run has ended.
  [[nodiscard]] bool take(const std::function<void(const std::string&)>& warn);
  [[noreturn]] void refuse() const;
  void write_holder() const;

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::string setting_;
  std::optional<CreatedFolders> folders_;
  Descriptor file_;
};

/// Throws InvalidInput unless `folder` can be created, or written if it exists. Creates nothing.
/// `setting`: as of OutputLock.
void require_writable_folder(const std::filesystem::path& folder, const std::string& setting);

}  // namespace slimpack
